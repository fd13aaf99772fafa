package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"testing"
)

// What somebody has signed counts as long as it is a principal with that key, also after a restart.
func TestWhoHasAKeySigns(t *testing.T) {
	t.Parallel()
	store := newMemory()
	b := openBook(t, store)
	if _, _, err := b.Create(t.Context(), &Spec{Name: "admin", Grants: []Grant{{Role: Admin}}}); err != nil {
		t.Fatal(err)
	}
	key, info, err := b.Create(t.Context(), &Spec{Name: "pump", Grants: []Grant{{Role: Device}}, Key: true})
	if err != nil || info.Credential != "key" {
		t.Fatal(info, err)
	}
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil || len(secret) != sha256.Size {
		t.Fatalf("the key is %q: %v", key, err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("what the pump says"))
	right := &Signature{"what the pump says", mac.Sum(nil)}
	for _, book := range []*Book{b, openBook(t, store)} {
		for _, tt := range []struct {
			what string
			a    Attempt
			want error
		}{
			{"its signature", Attempt{Name: "pump", Signature: right}, nil},
			{"of another text", Attempt{Name: "pump", Signature: &Signature{"what it does not say", right.MAC}}, ErrCredentials},
			{"of nobody", Attempt{Name: "pump", Signature: &Signature{}}, ErrCredentials},
			{"by who has a token", Attempt{Name: "admin", Signature: right}, ErrCredentials},
			{"by nobody", Attempt{Name: "nobody", Signature: right}, ErrCredentials},
			{"the key as a password", Attempt{Name: "pump", Password: key}, ErrCredentials},
			{"the key as a token", Attempt{Token: key}, ErrCredentials},
		} {
			tt.a.Address = somewhere
			if _, err := book.Login(t.Context(), &tt.a); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
			}
		}
	}
}
