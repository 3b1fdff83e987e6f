"""The ruler evaluates alert rules on the wall clock and delivers what they find."""
