// Package kafka measures Kafka by what its brokers answer clients (package kraft): which brokers are up, partitions
// without enough copies, and how far groups of consumers are behind. Each broker tells what it knows of itself. What
// holds for the whole cluster is told by one of them, the one with the lowest node.id of those that are up, so that it
// is there once.
//
// It leaves out what only the inside of a broker knows (JMX). Names of topics and groups are labels; users and clients
// are not told. Names are those of kafka_exporter (github.com/danielqsj/kafka_exporter) where it has them.
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/services/kafka/kraft"
	"spore/storage/atomicfile"
)

const (
	// program is whose certificate is shown to the brokers, which they take for one of themselves.
	program = "kafka"
	leaf    = "kafka-broker"
	// maxSecret bounds a certificate and a key in bytes.
	maxSecret = 64 << 10
	// maxTopics and maxLags are how many topics, and pairs of a group and a topic, are told one by one.
	maxTopics = 1000
	maxLags   = 2000
)

// Families is the table of this package.
func Families() []family.Family {
	row := func(name, help string, labels ...string) family.Family {
		return family.Family{Name: name, Type: family.Gauge, Labels: labels, Help: help, From: "kafka"}
	}
	return []family.Family{
		row("kafka_brokers", "Brokers that are up, as this one knows."),
		row("spore_kafka_leader_partitions", "Partitions that this broker leads."),
		row("spore_kafka_under_replicated_partitions", "Partitions that this broker leads and that lack a copy in sync."),
		row("spore_kafka_offline_partitions", "Partitions without a leader, as this broker knows."),
		row("kafka_topic_partitions", "Partitions of a topic; told by one broker.", "topic"),
		row("kafka_consumergroup_lag_sum", "Records that a group has not confirmed yet; told by one broker.",
			"consumergroup", "topic"),
	}
}

// On tells whether the node is a broker.
func On(q ask.Question) bool { return slices.Contains(q.Programs, program) && len(q.Brokers) > 0 }

// Measure asks this node's broker, and the others where this one tells what holds for all.
func Measure(ctx context.Context, root paths.Root, q ask.Question, into *family.Sink) error {
	config, err := config(root)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, id int32) (*kraft.Conn, error) {
		at, ok := q.Brokers[id]
		if !ok {
			return nil, errors.New("it has no address in cluster.yaml")
		}
		return kraft.Dial(ctx, at, config)
	}
	own, err := dial(ctx, q.Broker)
	if err != nil {
		return fmt.Errorf("ask the broker: %w", err)
	}
	topics, up, err := own.Topics(ctx)
	own.Close()
	if err != nil {
		return fmt.Errorf("ask the broker: %w", err)
	}
	Topics(into, q.Broker, topics, up)
	if !First(q.Broker, up) {
		return nil
	}
	left := maxLags
	var said []error
	lost := func(text string) { said = append(said, errors.New(text)) }
	err = kraft.Lags(ctx, slices.Sorted(maps.Keys(q.Brokers)), dial, lost, func(lags []kraft.Lag) error {
		for _, l := range lags[:min(len(lags), left)] {
			into.Add("kafka_consumergroup_lag_sum", float64(l.Records), l.Group, l.Topic)
		}
		left -= min(len(lags), left)
		return nil
	})
	return errors.Join(append(said, err)...)
}

// First tells whether a broker is the one that tells what holds for all.
func First(broker int32, up []int32) bool { return len(up) > 0 && slices.Min(up) == broker }

// Topics adds what one broker knows of partitions.
func Topics(into *family.Sink, broker int32, topics []kraft.Topic, up []int32) {
	leads, short, offline := 0, 0, 0
	for _, t := range topics {
		for _, p := range t.Partitions {
			switch {
			case p.Leader < 0:
				offline++
			case p.Leader == broker:
				leads++
				if len(p.InSync) < len(p.Replicas) {
					short++
				}
			}
		}
	}
	into.Add("kafka_brokers", float64(len(up)))
	into.Add("spore_kafka_leader_partitions", float64(leads))
	into.Add("spore_kafka_under_replicated_partitions", float64(short))
	into.Add("spore_kafka_offline_partitions", float64(offline))
	if !First(broker, up) {
		return
	}
	for _, t := range topics[:min(len(topics), maxTopics)] {
		into.Add("kafka_topic_partitions", float64(len(t.Partitions)), t.Name)
	}
}

// config is this node as a client of the brokers.
func config(root paths.Root) (*tls.Config, error) {
	read := func(ref string) ([]byte, error) {
		data, err := atomicfile.ReadLimited(root.At(filepath.Join(paths.Live, program, ref)), maxSecret)
		if err != nil {
			data, err = atomicfile.ReadLimited(root.At(filepath.Join(paths.Secrets, program, ref)), maxSecret)
		}
		if err != nil {
			return nil, fmt.Errorf("the certificate of this broker: %w", err)
		}
		return data, nil
	}
	certificate, err := read(leaf + "-certificate")
	if err != nil {
		return nil, err
	}
	key, err := read(leaf + "-key")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate of this broker: %w", err)
	}
	authority, err := atomicfile.ReadLimited(root.At(filepath.Join(paths.Trust, "kafka.crt")), maxSecret)
	if err != nil {
		return nil, fmt.Errorf("the authority of the brokers: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("the authority of the brokers: kafka.crt has no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
