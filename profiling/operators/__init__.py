"""Where a call's time goes: its operators, each in a role of attention, two contenders side by side. No torch."""
