"""The peers: what the gateway is measured beside."""
