"""Settings: the option tables of all rooms, their sources (file, environment, command line) and their mistakes."""
