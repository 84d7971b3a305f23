"""What every part of the gateway uses: requests and answers, routes, access, opened services."""
