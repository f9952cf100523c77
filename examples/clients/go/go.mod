module example.com/oneflight-client

go 1.19
