"""Log queries over a lake of our own, against VictoriaLogs and Loki with the same rows."""
