"""Plans say what a query reads and how it is cut. They are pure: no index, no network, no clock."""
