// Package mqtt measures the node's MQTT broker by what mosquitto tells of itself in the topics below $SYS/broker
// (mosquitto(8), "Broker status"). It asks at a socket of the broker's own, as a user who may read these topics and
// nothing else (package spore/services/mqtt/node).
//
// Mosquitto counts for the whole broker: no topic has the name of a user or of a client.
package mqtt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/services/mqtt"
	"spore/storage/atomicfile"
)

// program is the broker, and where it keeps its socket and the password of the user.
const (
	program = "mosquitto"
	folder  = "/run/mosquitto"
)

// maxPassword bounds the file of the password in bytes.
const maxPassword = 1 << 10

// row is a topic below $SYS/broker, and the family that its value is of.
type row struct {
	topic string
	family.Family
}

// rows are the topics that are read. Mosquitto's counters begin with its start, and so does the family's.
var rows = []row{
	gauge("uptime", "mosquitto_uptime_seconds", "How long the broker runs."),
	gauge("clients/connected", "mosquitto_clients_connected",
		"Clients that are connected. The collector is one of them."),
	gauge("clients/disconnected", "mosquitto_clients_disconnected",
		"Clients that are away and whose session is kept."),
	counter("clients/expired", "mosquitto_clients_expired_total",
		"Sessions that were given up since their clients stayed away."),
	counter("messages/received", "mosquitto_packets_received_total", "Packets of any type that came."),
	counter("messages/sent", "mosquitto_packets_sent_total", "Packets of any type that were sent."),
	counter("publish/messages/received", "mosquitto_messages_received_total", "Messages that clients published."),
	counter("publish/messages/sent", "mosquitto_messages_sent_total", "Messages that clients were given."),
	counter("publish/messages/dropped", "mosquitto_messages_dropped_total",
		"Messages that clients were not given, since too many of theirs waited."),
	counter("publish/bytes/received", "mosquitto_messages_received_bytes_total",
		"Payload of messages that clients published."),
	counter("publish/bytes/sent", "mosquitto_messages_sent_bytes_total",
		"Payload of messages that clients were given."),
	counter("bytes/received", "mosquitto_bytes_received_total", "What came, without TLS."),
	counter("bytes/sent", "mosquitto_bytes_sent_total", "What was sent, without TLS."),
	gauge("store/messages/count", "mosquitto_messages_stored",
		"Messages that are kept: retained ones, and those that wait."),
	gauge("store/messages/bytes", "mosquitto_messages_stored_bytes", "Payload of messages that are kept."),
	gauge("retained messages/count", "mosquitto_messages_retained",
		"Retained messages, with some 50 of the broker's own."),
	gauge("subscriptions/count", "mosquitto_subscriptions", "Subscriptions, without shared ones."),
	gauge("shared_subscriptions/count", "mosquitto_shared_subscriptions", "Shared subscriptions."),
	gauge("load/connections/1min", "mosquitto_connects_per_minute",
		"Clients that connected, as a mean of about a minute."),
	gauge("load/sockets/1min", "mosquitto_accepts_per_minute",
		"Connections of the network that were opened, with or without a client, as a mean of about a minute."),
	gauge("heap/current", "mosquitto_heap_bytes", "Memory that the broker has asked for."),
}

func gauge(topic, name, help string) row {
	return row{topic, family.Family{Name: name, Type: family.Gauge, Help: help, From: program}}
}

func counter(topic, name, help string) row {
	return row{topic, family.Family{Name: name, Type: family.Counter, Help: help, From: program}}
}

// prefix is what all of these topics begin with.
const prefix = "$SYS/broker/"

// Families is the table of this package.
func Families() []family.Family {
	out := make([]family.Family, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.Family)
	}
	return out
}

// On tells whether the node has a broker.
func On(q ask.Question) bool { return slices.Contains(q.Programs, program) }

// Broker is the node's broker. One question at a time may be asked.
//
// It keeps its connection and its subscription from one question to the next. Mosquitto writes each new connection into
// its journal, and after each new subscription it saves all that it keeps to the disk.
type Broker struct {
	root paths.Root
	conn *session
}

// New is the broker of the node below root.
func New(root paths.Root) *Broker { return &Broker{root: root} }

// Measure reads the topics. Where the broker was started again since the last question, it is connected to again.
func (b *Broker) Measure(ctx context.Context, into *family.Sink) error {
	values, err := b.read(ctx)
	if err != nil {
		return err
	}
	var said []error
	for _, r := range rows {
		text, ok := values[prefix+r.topic]
		if !ok {
			continue // Mosquitto tells of a topic when it has a value.
		}
		value, err := number(text)
		if err != nil {
			said = append(said, fmt.Errorf("the topic %s: %w", prefix+r.topic, err))
			continue
		}
		into.Add(r.Name, value)
	}
	return errors.Join(said...)
}

func (b *Broker) read(ctx context.Context) (map[string]string, error) {
	if b.conn != nil {
		if values, err := b.now(ctx); err == nil {
			return values, nil
		}
	}
	if err := b.connect(ctx); err != nil {
		return nil, fmt.Errorf("ask the broker: %w", err)
	}
	values, err := b.now(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the broker: %w", err)
	}
	return values, nil
}

// connect begins a session with a subscription to all topics.
func (b *Broker) connect(ctx context.Context) error {
	password, err := atomicfile.ReadLimited(b.root.At(filepath.Join(folder, mqtt.MetricsPassword)), maxPassword)
	if err != nil {
		return fmt.Errorf("the password of the collector: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", b.root.At(filepath.Join(folder, mqtt.MetricsSocket)))
	if err != nil {
		return err
	}
	limit(ctx, conn)
	s, err := connect(conn, mqtt.MetricsUser, string(password))
	if err != nil {
		return err
	}
	topics := make([]string, 0, len(rows))
	for _, r := range rows {
		topics = append(topics, prefix+r.topic)
	}
	if err := s.subscribe(topics); err != nil {
		conn.Close()
		return err
	}
	b.conn = s
	return nil
}

// now reads on the connection that there is, and gives it up when that fails.
func (b *Broker) now(ctx context.Context) (map[string]string, error) {
	limit(ctx, b.conn.conn)
	values, err := b.conn.now()
	if err != nil {
		b.conn.conn.Close()
		b.conn = nil
	}
	return values, err
}

// limit lets a connection be used as long as a context.
func limit(ctx context.Context, conn net.Conn) {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Now().Add(time.Minute)
	}
	_ = conn.SetDeadline(end) // An error is that of a connection that was closed, which the next call returns.
}

// number is the value of a topic: a number, or one of seconds.
func number(text string) (float64, error) {
	value, err := strconv.ParseFloat(strings.TrimSuffix(text, " seconds"), 64)
	if err != nil || math.IsInf(value, 0) || math.IsNaN(value) || value < 0 {
		return 0, fmt.Errorf("its value %.40q is not a number", text)
	}
	return value, nil
}
