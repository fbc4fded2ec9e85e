"""SOAP reliable messaging without IO: what a message is, and where it goes ([MC-MQSRM] 3.1.5.1)."""
