"""Object stores' notifications become references to raw objects in the lake."""
