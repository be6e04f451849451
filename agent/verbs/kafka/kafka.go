// Package kafka is the verbs of Kafka, on a broker: topics and where their copies are, how far groups of consumers are
// behind, who leads the controllers, and moving all copies off a broker before it goes.
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/paths"
	"spore/agent/verbs"
	"spore/services/kafka"
	"spore/services/kafka/kraft"
	"spore/storage/atomicfile"
)

const (
	// program is whose certificate is shown to the brokers, which they take for one of themselves.
	program = "kafka"
	leaf    = "kafka-broker"
	// maxSecret bounds a certificate and a key in bytes.
	maxSecret = 64 << 10
	// atOnce is how many topics, rows or moves are in one part of the result, maxPartitions how many partitions, and
	// maxCopies how many numbers of brokers that have them: a part fits into one event (nodeapi.MaxEvent).
	atOnce        = 500
	maxPartitions = 5000
	maxCopies     = 6 * maxPartitions
	// lookEvery is how often it is looked whether the data has moved.
	lookEvery = 2 * time.Second
)

// Topics answers with all topics. One with very many partitions is in several parts of the result, one after the other.
func Topics(ctx context.Context, r *verbs.Run) (string, error) {
	b, err := open(r)
	if err != nil {
		return "", err
	}
	topics, _, err := b.topics(ctx)
	if err != nil {
		return "", err
	}
	for _, part := range parts(topics) {
		if err := r.Result(part); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d topics; %s", len(topics), short(topics)), nil
}

// parts cuts topics so that each part fits into one event.
func parts(topics []kraft.Topic) [][]kraft.Topic {
	var out [][]kraft.Topic
	var part []kraft.Topic
	partitions, copies := 0, 0
	end := func() {
		if len(part) > 0 {
			out = append(out, part)
		}
		part, partitions, copies = nil, 0, 0
	}
	for _, t := range topics {
		if len(part) == atOnce {
			end()
		}
		for rest := t.Partitions; ; {
			n := 0
			for n < len(rest) && partitions < maxPartitions && copies < maxCopies {
				partitions++
				copies += len(rest[n].Replicas) + len(rest[n].InSync)
				n++
			}
			piece := t
			piece.Partitions, rest = rest[:n], rest[n:]
			if n > 0 || len(t.Partitions) == 0 {
				part = append(part, piece)
			}
			if len(rest) == 0 {
				break
			}
			end()
		}
	}
	end()
	return out
}

// short says how many partitions have fewer copies in sync than they should, or no leader.
func short(topics []kraft.Topic) string {
	behind, offline := 0, 0
	for _, t := range topics {
		for _, p := range t.Partitions {
			if len(p.InSync) < len(p.Replicas) {
				behind++
			}
			if p.Leader < 0 {
				offline++
			}
		}
	}
	if behind+offline == 0 {
		return "all copies are in sync"
	}
	return fmt.Sprintf("%d partitions have copies that are behind, %d have no leader", behind, offline)
}

// Lag answers with how far each group is behind in each topic.
func Lag(ctx context.Context, r *verbs.Run) (string, error) {
	b, err := open(r)
	if err != nil {
		return "", err
	}
	var ids []int32
	for id := range b.addresses {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rows := 0
	err = kraft.Lags(ctx, ids, b.dial, func(text string) { _ = r.Say("%s", text) }, func(lags []kraft.Lag) error {
		rows += len(lags)
		for part := range slices.Chunk(lags, atOnce) {
			if err := r.Result(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d rows", rows), nil
}

// Move has the other brokers take all copies that a broker has, and waits until they have them.
func Move(ctx context.Context, r *verbs.Run) (string, error) {
	b, err := open(r)
	if err != nil {
		return "", err
	}
	name := r.Argument("off", "")
	if !slices.Contains(kafka.Brokers(r.Cluster), name) {
		return "", fmt.Errorf("%.64q is no broker; brokers are %s", name, strings.Join(kafka.Brokers(r.Cluster), ", "))
	}
	// What moves is asked for first: a move that ends between both questions is then seen as done, and not as one that has
	// yet to begin from the copies that it had.
	var leaving map[kraft.Place][]int32
	err = b.with(ctx, func(c *kraft.Conn) (err error) {
		leaving, err = c.Leaving(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	topics, up, err := b.topics(ctx)
	if err != nil {
		return "", err
	}
	moves, begun, err := kraft.Off(topics, leaving, up, kafka.ID(name), r.Argument("shrink", "no") == "yes")
	if err != nil {
		return "", err
	}
	if len(begun) > 0 {
		_ = r.Say("%d partitions move off %s already", len(begun), name)
	}
	all := slices.Concat(begun, moves)
	if len(all) == 0 {
		return name + " has no copies", nil
	}
	if r.Order.DryRun {
		for part := range slices.Chunk(moves, atOnce) {
			if err := r.Result(part); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d partitions would move off %s", len(moves), name), nil
	}
	if len(moves) > 0 {
		if err := b.with(ctx, func(c *kraft.Conn) error { return c.Begin(ctx, moves) }); err != nil {
			return "", err
		}
	}
	look := func(ctx context.Context) ([]kraft.Topic, error) {
		topics, _, err := b.topics(ctx)
		return topics, err
	}
	if err := (wait{look: look, every: lookEvery}).await(ctx, r, kafka.ID(name), all); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d partitions have moved off %s", len(all), name), nil
}

// wait is how it is looked whether partitions have moved; patience 0 is the usual.
type wait struct {
	look     func(context.Context) ([]kraft.Topic, error)
	every    time.Duration
	patience time.Duration
}

// await waits until a broker has none of the partitions any more that move off it. Those that it gets meanwhile, as of
// a new topic, are none of them.
func (w wait) await(ctx context.Context, r *verbs.Run, id int32, moves []kraft.Move) error {
	left, last := len(moves), -1
	patience := verbs.Patience{For: w.patience}
	for {
		topics, err := w.look(ctx)
		if ctx.Err() == nil {
			if err := patience.Bear(r, err); err != nil {
				return fmt.Errorf("it is not known how far Kafka is, which goes on: %w", err)
			}
		}
		if err == nil {
			left = unmoved(topics, id, moves)
		}
		if left == 0 {
			return nil
		}
		if left != last && err == nil {
			_ = r.Say("waiting for %d partitions", left)
			last = left
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d partitions have not moved yet; Kafka goes on: %w", left, ctx.Err())
		case <-time.After(w.every):
		}
	}
}

// unmoved counts the partitions of which a broker still has a copy. A topic that was deleted has none.
func unmoved(topics []kraft.Topic, id int32, moves []kraft.Move) int {
	type place struct {
		topic     string
		partition int32
	}
	has := map[place]bool{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			has[place{t.Name, p.Number}] = slices.Contains(p.Replicas, id)
		}
	}
	n := 0
	for _, m := range moves {
		if has[place{m.Topic, m.Partition}] {
			n++
		}
	}
	return n
}

// broker is this node as a client of the brokers.
type broker struct {
	config *tls.Config
	// own is the address of this node's broker, and addresses are those of all by node.id.
	own       string
	addresses map[int32]string
}

func open(r *verbs.Run) (*broker, error) {
	if kafka.Of(r.Cluster.Services) == nil || !slices.Contains(kafka.Brokers(r.Cluster), r.Node.Name) {
		return nil, fmt.Errorf("%s is no broker of Kafka", r.Node.Name)
	}
	b := &broker{addresses: map[int32]string{}}
	for _, name := range kafka.Brokers(r.Cluster) {
		n, err := r.Machine.Part.Node(name)
		if err != nil {
			return nil, err
		}
		if len(n.IPs) == 0 {
			return nil, fmt.Errorf("%s has no address in cluster.yaml", name)
		}
		at := net.JoinHostPort(n.IPs[0], strconv.Itoa(kafka.BrokerPort))
		b.addresses[kafka.ID(name)] = at
		if name == r.Node.Name {
			b.own = at
		}
	}
	read := func(ref string) ([]byte, error) {
		return atomicfile.ReadLimited(r.Machine.Root.At(filepath.Join(paths.Secrets, program, ref)), maxSecret)
	}
	certificate, err := read(leaf + "-certificate")
	if err != nil {
		return nil, fmt.Errorf("the certificate of this broker: %w", err)
	}
	key, err := read(leaf + "-key")
	if err != nil {
		return nil, fmt.Errorf("the certificate of this broker: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of this broker: %w", err)
	}
	authority, err := r.Machine.Part.Public("kafka.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("kafka.crt of the cluster part holds no certificate")
	}
	b.config = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}
	return b, nil
}

func (b *broker) dial(ctx context.Context, id int32) (*kraft.Conn, error) {
	at, ok := b.addresses[id]
	if !ok {
		return nil, errors.New("it is not in cluster.yaml")
	}
	return kraft.Dial(ctx, at, b.config)
}

// with gives something to do to this node's broker.
func (b *broker) with(ctx context.Context, do func(*kraft.Conn) error) error {
	c, err := kraft.Dial(ctx, b.own, b.config)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

func (b *broker) topics(ctx context.Context) (topics []kraft.Topic, up []int32, err error) {
	err = b.with(ctx, func(c *kraft.Conn) (err error) {
		topics, up, err = c.Topics(ctx)
		return err
	})
	return topics, up, err
}
