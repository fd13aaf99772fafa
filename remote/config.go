package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"github.com/greenroom-go/greenroom/codec"
)

// Config says how a node reaches others, and who it is. A node with the zero Config neither listens
// nor knows other nodes.
type Config struct {
	// Addr is the TCP address to listen on, "" for none. Without Secret, TLS or Insecure it must be
	// a loopback address.
	Addr string
	// Listener accepts the connections of other nodes in place of Addr, if not nil, and Dial connects to their addresses in place of
	// TCP: for connections that are encrypted already, or share a port with others. The node closes the listener. Dial
	// must be safe for concurrent use, and end with its context.
	Listener net.Listener
	Dial     func(ctx context.Context, addr string) (net.Conn, error)
	// Peers maps the names of nodes to the addresses at which this node connects to them when it
	// needs them. Other nodes have to connect themselves.
	Peers map[string]string
	// Cluster is the name of the cluster: only nodes of the same cluster connect.
	Cluster string
	// Types are the types of the messages between nodes.
	Types *codec.Types

	// Secret is shared by all nodes of the cluster, and has at least 16 bytes. Connections are
	// encrypted.
	Secret string
	// TLS has the certificates by which nodes authenticate each other. If Secret is set, too, both
	// are required.
	TLS *TLS
	// Insecure allows connections to other machines with neither Secret nor TLS, such as where Dial and
	// Listener encrypt.
	Insecure bool

	// ResumeWithin is how long a node may be away before it is lost. Defaults to 10 seconds.
	ResumeWithin time.Duration
}

// TLS is how a node proves its identity, and how it checks that of others.
type TLS struct {
	// Certificate is the node's certificate, for clients and servers, with the node's name as a
	// URI: greenroom://cluster/node.
	Certificate tls.Certificate
	// Roots are the accepted authorities.
	Roots *x509.CertPool
}
