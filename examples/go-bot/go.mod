module go-bot

go 1.19
