// Package unit is what the units of Kafka run besides Kafka: the storage is made ready before it starts, its start is
// over when it serves, and its users and rights are those of kafka.yaml. Package kraft speaks the protocol.
package unit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"spore/agent/detect"
	"spore/agent/node"
	"spore/agent/wait"
	"spore/cluster/facts"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
)

// Bootstrap gives Kafka the users and rights of kafka.yaml, by the broker of this node, and ends.
func Bootstrap(ctx context.Context, m *node.Machine) error {
	c, n, err := self(m)
	if err != nil {
		return err
	}
	users, err := usersOf(c)
	if err != nil {
		return err
	}
	rules, err := kraft.Rules(kafka.Of(c.Services).Users)
	if err != nil {
		return err
	}
	address, err := listener(n, kafka.BrokerPort)
	if err != nil {
		return err
	}
	config, err := ownTLS(m)
	if err != nil {
		return err
	}
	_, inSync := kafka.Replication(c)
	defaults := map[string]string{"min.insync.replicas": strconv.Itoa(inSync)}
	var done kraft.Done
	var changed []string
	err = kraft.Await(ctx, "Kafka to take its users", m.Say, func(ctx context.Context) error {
		conn, err := kraft.Dial(ctx, address, config)
		if err != nil {
			return err
		}
		defer conn.Close()
		if changed, err = conn.SetDefaults(ctx, defaults); err != nil {
			return err
		}
		done, err = conn.Apply(ctx, users, rules)
		return err
	})
	if err != nil {
		return err
	}
	m.Say(fmt.Sprintf("Kafka has %d users; rights: %d new, %d taken away", done.Users, done.Allowed, done.Withdrawn))
	for _, name := range changed {
		m.Say(fmt.Sprintf("%s is now %s by default", name, defaults[name]))
	}
	if len(done.Dropped) > 0 {
		m.Say("users who are not in kafka.yaml are gone: " + strings.Join(done.Dropped, ", "))
	}
	return nil
}

// Ready waits until this node's Kafka serves.
func Ready(ctx context.Context, m *node.Machine) error {
	c, n, err := self(m)
	if err != nil {
		return err
	}
	port, ready := kafka.ControllerPort, kraft.ControllerReady
	if slices.Contains(kafka.Brokers(c), n.Name) {
		port = kafka.BrokerPort
		ready = func(ctx context.Context, conn *kraft.Conn) error {
			return kraft.BrokerReady(ctx, conn, kafka.ID(n.Name))
		}
	}
	address, err := listener(n, port)
	if err != nil {
		return err
	}
	config, err := ownTLS(m)
	if err != nil {
		return err
	}
	ctx, cancel, err := wait.WhileMainRuns(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	err = kraft.Await(ctx, "Kafka to serve", m.Say, func(ctx context.Context) error {
		conn, err := kraft.Dial(ctx, address, config)
		if err != nil {
			return err
		}
		defer conn.Close()
		return ready(ctx, conn)
	})
	if ctx.Err() != nil {
		return nil // The unit is being stopped, or Kafka ended; with an error here it would count as failed.
	}
	return err
}

// self is the cluster and this node, which has a role of Kafka.
func self(m *node.Machine) (*facts.Cluster, *facts.Node, error) {
	_, c, n, err := m.Node()
	if err != nil {
		return nil, nil, err
	}
	if n == nil || kafka.Of(c.Services) == nil || !slices.Contains(kafka.Nodes(c), n.Name) {
		return nil, nil, fmt.Errorf("%w with a role of Kafka", detect.ErrUnmatched)
	}
	return c, n, nil
}

// listener is the address of a listener of this node.
func listener(n *facts.Node, port int) (string, error) {
	if len(n.IPs) == 0 {
		return "", errors.New("this node has no address in cluster.yaml; give it one under ips")
	}
	return net.JoinHostPort(n.IPs[0], strconv.Itoa(port)), nil
}

// usersOf reads the salted passwords that the unit was given: admin's, and those that kafka.yaml names.
func usersOf(c *facts.Cluster) (map[string]kraft.Credential, error) {
	refs := map[string]string{kafka.Admin: "kafka-scram-admin"}
	for _, u := range kafka.Of(c.Services).Users {
		refs[u.Name] = u.Password.SecretRef
	}
	out := map[string]kraft.Credential{}
	for name, ref := range refs {
		text, err := node.Secret(ref)
		if err != nil {
			return nil, err
		}
		if out[name], err = kraft.ParseCredential(text); err != nil {
			return nil, fmt.Errorf("the secret %s of the user %s: %w; bring the bundle that `spore pki bundle` makes", ref, name, err)
		}
	}
	return out, nil
}

// ownTLS is how the node's own certificate is shown to a listener of this node.
func ownTLS(m *node.Machine) (*tls.Config, error) {
	certificate, err := node.Secret("kafka-broker-certificate")
	if err != nil {
		return nil, err
	}
	key, err := node.Secret("kafka-broker-key")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate of Kafka: %w", err)
	}
	authority, err := m.Part.Public("kafka.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("kafka.crt of the cluster part holds no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
