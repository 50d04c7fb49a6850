-- Every request submits an intent of its own.
local threads = 0
function setup(thread)
    threads = threads + 1
    thread:set("number", threads)
end
function init(args)
    run, sent = args[1], 0
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
end
function request()
    sent = sent + 1
    local id = run .. "-" .. number .. "-" .. sent
    local body = '{"intentId":"' .. id .. '","submissionTarget":"otp","payload":{"to":"+4917000000","text":"Your code is 123456"}}'
    return wrk.format(nil, nil, nil, body)
end
