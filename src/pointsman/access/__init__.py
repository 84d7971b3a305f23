"""Who may call, for what, and with how much money: keys, the admin token, budgets, spending."""
