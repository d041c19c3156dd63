"""The check's workings: a layer run, its output compared and explained, its gradients and masks tried."""
