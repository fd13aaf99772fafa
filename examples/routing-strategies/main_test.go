package main

import (
	"testing"

	"github.com/greenroom-go/greenroom/examples/internal/exampletest"
)

func TestOutput(t *testing.T) {
	exampletest.Check(t, run, `
		Round robin routing:
		nonhost/round-robin/1 got message 0
		nonhost/round-robin/1 got message 5
		nonhost/round-robin/2 got message 1
		nonhost/round-robin/2 got message 6
		nonhost/round-robin/3 got message 2
		nonhost/round-robin/3 got message 7
		nonhost/round-robin/4 got message 3
		nonhost/round-robin/4 got message 8
		nonhost/round-robin/5 got message 4
		nonhost/round-robin/5 got message 9
		Random routing:
		nonhost/random/? got message 0
		nonhost/random/? got message 1
		nonhost/random/? got message 2
		nonhost/random/? got message 3
		nonhost/random/? got message 4
		nonhost/random/? got message 5
		nonhost/random/? got message 6
		nonhost/random/? got message 7
		nonhost/random/? got message 8
		nonhost/random/? got message 9
		ConsistentHash routing:
		nonhost/consistent-hash/1 got message 2
		nonhost/consistent-hash/1 got message 4
		nonhost/consistent-hash/1 got message 7
		nonhost/consistent-hash/2 got message 8
		nonhost/consistent-hash/3 got message 0
		nonhost/consistent-hash/3 got message 6
		nonhost/consistent-hash/4 got message 1
		nonhost/consistent-hash/5 got message 3
		nonhost/consistent-hash/5 got message 5
		nonhost/consistent-hash/5 got message 9
		BroadcastPool routing:
		nonhost/broadcast/1 got message 0
		nonhost/broadcast/1 got message 1
		nonhost/broadcast/1 got message 2
		nonhost/broadcast/1 got message 3
		nonhost/broadcast/1 got message 4
		nonhost/broadcast/1 got message 5
		nonhost/broadcast/1 got message 6
		nonhost/broadcast/1 got message 7
		nonhost/broadcast/1 got message 8
		nonhost/broadcast/1 got message 9
		nonhost/broadcast/2 got message 0
		nonhost/broadcast/2 got message 1
		nonhost/broadcast/2 got message 2
		nonhost/broadcast/2 got message 3
		nonhost/broadcast/2 got message 4
		nonhost/broadcast/2 got message 5
		nonhost/broadcast/2 got message 6
		nonhost/broadcast/2 got message 7
		nonhost/broadcast/2 got message 8
		nonhost/broadcast/2 got message 9
		nonhost/broadcast/3 got message 0
		nonhost/broadcast/3 got message 1
		nonhost/broadcast/3 got message 2
		nonhost/broadcast/3 got message 3
		nonhost/broadcast/3 got message 4
		nonhost/broadcast/3 got message 5
		nonhost/broadcast/3 got message 6
		nonhost/broadcast/3 got message 7
		nonhost/broadcast/3 got message 8
		nonhost/broadcast/3 got message 9
		nonhost/broadcast/4 got message 0
		nonhost/broadcast/4 got message 1
		nonhost/broadcast/4 got message 2
		nonhost/broadcast/4 got message 3
		nonhost/broadcast/4 got message 4
		nonhost/broadcast/4 got message 5
		nonhost/broadcast/4 got message 6
		nonhost/broadcast/4 got message 7
		nonhost/broadcast/4 got message 8
		nonhost/broadcast/4 got message 9
		nonhost/broadcast/5 got message 0
		nonhost/broadcast/5 got message 1
		nonhost/broadcast/5 got message 2
		nonhost/broadcast/5 got message 3
		nonhost/broadcast/5 got message 4
		nonhost/broadcast/5 got message 5
		nonhost/broadcast/5 got message 6
		nonhost/broadcast/5 got message 7
		nonhost/broadcast/5 got message 8
		nonhost/broadcast/5 got message 9
	`)
}
