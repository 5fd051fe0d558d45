"""The peers with which the gateway is compared."""
