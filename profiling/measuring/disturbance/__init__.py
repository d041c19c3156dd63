"""What disturbs a measurement: seen, waited for, and told with the next step."""
