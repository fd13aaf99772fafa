package remote

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/greenroom-go/greenroom/codec"
)

// Config says how a node reaches others, and who it is. The zero Config is a node that neither
// listens nor knows others.
type Config struct {
	// Addr is the TCP address to listen on, "" for none. Without Secret, TLS or Insecure it must be
	// one of the machine itself.
	Addr string
	// Peers has the addresses of nodes that this one connects to when it needs them, by name. The
	// others have to connect themselves.
	Peers map[string]string
	// Cluster is a name: only nodes of the same cluster connect.
	Cluster string
	// Types are the types of the messages between nodes.
	Types *codec.Types

	// Secret is known to all nodes of the cluster, at least 16 bytes. Connections are encrypted.
	Secret string
	// TLS has the certificates by which the nodes know each other. It may come together with
	// Secret: then both must hold.
	TLS *TLS
	// Insecure allows connections beyond the machine with neither Secret nor TLS.
	Insecure bool

	// ResumeWithin is how long a node may be away before it is lost. Defaults to 10 seconds.
	ResumeWithin time.Duration
}

// TLS is how a node shows who it is, and how it knows others.
type TLS struct {
	// Certificate is the node's, for clients and servers, with its name as a URI:
	// greenroom://cluster/node.
	Certificate tls.Certificate
	// Roots are the authorities whose certificates are taken.
	Roots *x509.CertPool
}
