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
		"[fd20:ce::254]:80": false, "168.63.129.16:80": false, "100.100.100.200:80": false, "192.0.0.192:80": false,
		"[fd00:ec2::23]:80": false, "[fd00:c1::a9fe:a9fe]:80": false, "[fd00:a9fe:a9fe::1]:80": false, "[fd00:42::42]:80": false,
		"[::ffff:100.100.100.200]:80": false, "168.63.129.17:80": true, "100.100.100.201:80": true, "[fd20:ce::255]:443": true,
		"[64:ff9b::169.254.169.254]:80": false, "[64:ff9b::192.0.0.192]:80": false, "[64:ff9b::192.0.2.1]:80": true,
		"[64:ff9b:1::169.254.169.254]:80": false, "[64:ff9b:1::10.1.2.3]:80": true, "[::169.254.169.254]:80": false,
		"[2002:a9fe:a9fe::1]:80": false, "[2002:a83f:8110::]:80": false, "[2002:c000:201::a9fe:a9fe]:80": true,
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
