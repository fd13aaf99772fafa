package alarm

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func TestWebhooksDoNotReachTheMetadataOfAMachine(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.1.2.3:443": true, "[fd00::1]:443": true, "192.0.2.1:443": true,
		"169.254.169.254:80": false, "169.254.170.2:80": false, "[::ffff:169.254.169.254]:80": false, "[fe80::1%eth0]:80": false,
		"[fd00:ec2::254]:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "example.com:80": false,
	} {
		if err := checkAddress(address); (err == nil) != ok || err != nil && !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v", address, err)
		}
	}
	// Nothing is sent: the connection is refused before it is made.
	_, err := newSender(&Service{ctx: t.Context()}).client.Get("http://169.254.169.254/latest/meta-data/")
	if !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("a webhook to the metadata service: %v", err)
	}
}
