"""Connection-oriented RPC ([C706] 12, [MS-RPCE] 3.3): both sides of a connection, without socket, clock or entropy."""
