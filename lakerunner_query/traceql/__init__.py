"""TraceQL: the language of Tempo, evaluated over whole traces."""
