// Package client connects to etcd on the masters with the certificate of the node's agent (leaf etcd-agent). It is linked into
// spore-etcd alone: the agent of nodes without Kubernetes has nothing of etcd in it.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Port is where etcd answers clients, TCP.
const Port = 2379

// Own is the etcd of this very master.
const Own = "https://127.0.0.1:2379"

// Times of a connection, on a machine of usual speed.
const (
	// dialTime bounds one try to connect.
	dialTime = 5 * time.Second
	// keepAlive is how long a connection may be silent before it is asked whether it is still there, and for the answer.
	keepAlive = 10 * time.Second
)

// Leaf is the certificate of a client; its entries of the bundle are Leaf-certificate and Leaf-key.
const Leaf = "etcd-agent"

// Identity is whom a client is and whom it trusts; all is PEM.
type Identity struct {
	// Certificate, with its chain, and Key are the client's own; Authorities are those of etcd's servers.
	Certificate, Key, Authorities []byte
}

// URL is where the etcd of a master is asked that has this address.
func URL(address string) string {
	return "https://" + net.JoinHostPort(address, strconv.Itoa(Port))
}

// Connect makes a client of the given endpoints, as of Own and URL. It waits for nobody: a request does, until its context
// ends. slow is the factor by which the machines are slower than usual ones. The caller closes the client.
func Connect(id Identity, slow int, endpoints ...string) (*clientv3.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(id.Authorities) {
		return nil, errors.New("client of etcd: the file of its authorities has no certificate")
	}
	pair, err := tls.X509KeyPair(id.Certificate, id.Key)
	if err != nil {
		return nil, fmt.Errorf("client of etcd: %w", err)
	}
	factor := time.Duration(max(slow, 1))
	c, err := clientv3.New(clientv3.Config{
		Endpoints:         endpoints,
		TLS:               &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
		DialTimeout:       dialTime * factor,
		DialKeepAliveTime: keepAlive * factor, DialKeepAliveTimeout: keepAlive * factor,
		// It would tell every failed try on stderr; whoever waits says for whom by itself.
		Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("client of etcd: %w", err)
	}
	return c, nil
}
