"""A process evaluates alert rules on the wall clock and notifies receivers of what fires."""
