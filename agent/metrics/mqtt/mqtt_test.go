package mqtt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
	"spore/agent/paths"
	"spore/services/mqtt"
)

// recorded is what mosquitto 2.0.11 sent after it had run for 11 seconds and three clients had published: its answer to
// the connection, to the subscription, the topics, and its answer to the ping.
const recorded = "testdata/mosquitto-2.0.11"

// broker answers at the socket of a node. It keeps what clients sent.
type broker struct {
	root paths.Root
	// answers are sent after each packet, by its type.
	answers map[byte][]byte

	mu    sync.Mutex
	conns []net.Conn
	said  [][]byte
}

// newBroker is one that says what was recorded.
func newBroker(t *testing.T) *broker {
	t.Helper()
	answer, err := os.ReadFile(recorded)
	require.NoError(t, err)
	const connack, pingresp = 4, 2
	b := brokerThat(t, map[byte][]byte{
		packetConnect: answer[:connack], packetSubscribe: answer[connack : len(answer)-pingresp],
		packetPingreq: answer[len(answer)-pingresp:],
	})
	return b
}

func brokerThat(t *testing.T, answers map[byte][]byte) *broker {
	t.Helper()
	dir, err := os.MkdirTemp("", "mqtt") // The path of a socket has at most 107 bytes.
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &broker{root: paths.Root(dir), answers: answers}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, folder, mqtt.MetricsPassword), []byte("secret"), 0o600))
	l, err := net.Listen("unix", filepath.Join(dir, folder, mqtt.MetricsSocket))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close(); b.drop() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			go b.serve(conn)
		}
	}()
	return b
}

func (b *broker) serve(conn net.Conn) {
	s := &session{conn: conn, in: bufio.NewReader(conn)}
	for {
		kind, body, err := s.packet()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.said = append(b.said, append([]byte{kind}, body...))
		b.mu.Unlock()
		if _, err := conn.Write(b.answers[kind]); err != nil {
			return
		}
	}
}

// drop ends all connections, as a broker does that is started again.
func (b *broker) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

// packets are the types of those that clients sent.
func (b *broker) packets() (kinds []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.said {
		kinds = append(kinds, p[0])
	}
	return kinds
}

// measure asks once, and returns the families' values.
func measure(t *testing.T, b *Broker) (map[string]float64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	s := family.NewSink(Families())
	err := b.Measure(ctx, s)
	all, errs := s.Families()
	require.Empty(t, errs)
	out := map[string]float64{}
	for _, f := range all {
		require.Len(t, f.Metric, 1)
		require.Empty(t, f.Metric[0].Label)
		out[f.GetName()] = f.Metric[0].GetGauge().GetValue() + f.Metric[0].GetCounter().GetValue()
	}
	return out, err
}

func TestABrokerTellsItsTopics(t *testing.T) {
	b := newBroker(t)
	values, err := measure(t, New(b.root))
	require.NoError(t, err)
	require.Len(t, values, len(rows), "mosquitto has each topic of the table")
	for name, want := range map[string]float64{
		"mosquitto_uptime_seconds": 11, "mosquitto_packets_received_total": 9, "mosquitto_messages_received_bytes_total": 15,
		"mosquitto_messages_dropped_total": 0, "mosquitto_bytes_received_total": 105, "mosquitto_messages_retained": 55,
		"mosquitto_connects_per_minute": 2.74, "mosquitto_heap_bytes": 45848,
	} {
		require.InDelta(t, want, values[name], 1e-9, name)
	}
	connect := string(b.said[0])
	require.Equal(t, "\x10\x00\x04MQTT\x04\xc2\x01\x2c\x00\x00\x00\x0e_spore-metrics\x00\x06secret", connect)
	for _, r := range rows {
		require.Contains(t, string(b.said[1]), "$SYS/broker/"+r.topic+"\x00", "quality of service 0")
	}
	require.NotContains(t, string(b.said[1]), "/#", "topics that are not read are not sent")
}

func TestABrokerIsConnectedToAndSubscribedToOnce(t *testing.T) {
	b := newBroker(t)
	collector := New(b.root)
	for range 3 {
		values, err := measure(t, collector)
		require.NoError(t, err)
		require.Len(t, values, len(rows), "what did not change since")
	}
	require.Equal(t, []byte{packetConnect, packetSubscribe, packetPingreq, packetPingreq, packetPingreq}, b.packets())
	b.drop()
	values, err := measure(t, collector)
	require.NoError(t, err, "the broker was started again")
	require.Len(t, values, len(rows))
}

func TestWhatChangesIsTold(t *testing.T) {
	b := newBroker(t)
	collector := New(b.root)
	_, err := measure(t, collector)
	require.NoError(t, err)
	_, err = b.conns[0].Write(publish(prefix+"uptime", "21 seconds"))
	require.NoError(t, err)
	values, err := measure(t, collector)
	require.NoError(t, err)
	require.InDelta(t, 21, values["mosquitto_uptime_seconds"], 0)
}

// publish is a message.
func publish(topic, value string) []byte {
	body := append(text(nil, topic), value...)
	return append([]byte{packetPublish, byte(len(body))}, body...)
}

// suback is an answer to the subscription to all topics.
func suback() []byte {
	return append([]byte{packetSuback, byte(2 + len(rows)), 0, 1}, make([]byte, len(rows))...)
}

func TestAHostileBrokerCostsItsOwnRows(t *testing.T) {
	connack, pingresp := []byte{packetConnack, 2, 0, 0}, []byte{packetPingresp, 0}
	for name, tt := range map[string]struct {
		connect, subscribe, ping []byte
		want                     string
	}{
		"it refuses the user":         {[]byte{packetConnack, 2, 0, 5}, nil, nil, "refuses the user _spore-metrics with code 5"},
		"it is another server":        {[]byte("220 ESMTP\r\n" + strings.Repeat(" ", 60)), nil, nil, "does not answer as a broker"},
		"it says nothing":             {nil, nil, nil, "i/o timeout"},
		"it ends in a packet":         {connack, suback()[:3], nil, "i/o timeout"},
		"it refuses the topics":       {connack, append(suback()[:len(rows)+3], failure), pingresp, "refuses the subscription"},
		"it answers another question": {connack, []byte{packetSuback, 3, 0, 1, 0}, pingresp, "refuses the subscription"},
		"it leaves the question":      {connack, nil, pingresp, "does not answer the subscription"},
		"its length has no end":       {connack, []byte{packetPublish, 0xFF, 0xFF, 0xFF, 0xFF, 1}, nil, "length is malformed"},
		"its packet is 256 MiB":       {connack, []byte{packetPublish, 0xFF, 0xFF, 0xFF, 0x7F}, nil, "a packet of 268435455 bytes"},
		"its message has no topic":    {connack, []byte{packetPublish, 2, 0, 9}, nil, "a message that is malformed"},
		"its message is empty":        {connack, []byte{packetPublish, 0}, nil, "a message that is malformed"},
		"its message wants an answer": {connack, []byte{packetPublish | 2, 2, 0, 0}, nil, "another quality of service"},
		"it asks":                     {connack, []byte{packetConnect, 0}, nil, "a packet of the type 1"},
		"it does not end": {connack, append(suback(), bytes.Repeat(publish("a", "b"), maxPackets+1)...), pingresp,
			"more than 2000 packets"},
		"a value is a text": {connack, append(suback(), publish(prefix+"uptime", "long")...), pingresp,
			`$SYS/broker/uptime: its value "long" is not a number`},
		"a value is below 0": {connack, append(suback(), publish(prefix+"bytes/sent", "-1")...), pingresp, "is not a number"},
		"a value is NaN":     {connack, append(suback(), publish(prefix+"bytes/sent", "NaN")...), pingresp, "is not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			b := brokerThat(t, map[byte][]byte{packetConnect: tt.connect, packetSubscribe: tt.subscribe, packetPingreq: tt.ping})
			values, err := measure(t, New(b.root))
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 300)
			require.Empty(t, values)
		})
	}
}

func TestTopicsThatWereNotAskedForAreNotKept(t *testing.T) {
	b := brokerThat(t, map[byte][]byte{
		packetConnect: {packetConnack, 2, 0, 0}, packetPingreq: {packetPingresp, 0},
		packetSubscribe: append(suback(), append(publish("secret", "1"), publish(prefix+"uptime", "1 seconds")...)...),
	})
	collector := New(b.root)
	values, err := measure(t, collector)
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"mosquitto_uptime_seconds": 1}, values)
	require.Len(t, collector.conn.values, 1)
}

func TestWithoutABrokerThereIsAnError(t *testing.T) {
	collector := New(paths.Root(t.TempDir()))
	_, err := measure(t, collector)
	require.ErrorContains(t, err, "the password of the collector")
	b := newBroker(t)
	require.NoError(t, os.Remove(b.root.At(filepath.Join(folder, mqtt.MetricsSocket))))
	_, err = measure(t, New(b.root))
	require.ErrorContains(t, err, "ask the broker: dial unix")
}

func TestANodeWithoutABrokerIsNotAsked(t *testing.T) {
	require.True(t, On(ask.Question{Programs: []string{"coredns", "mosquitto"}}))
	require.False(t, On(ask.Question{Programs: []string{"coredns"}}))
}

func TestNamesAreThoseThatPrometheusWants(t *testing.T) {
	s := family.NewSink(Families())
	for _, f := range Families() {
		s.Add(f.Name, 1)
	}
	all, errs := s.Families()
	require.Empty(t, errs)
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheTableHasEachNameOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		require.False(t, seen[r.Name] || seen[r.topic], r.Name)
		seen[r.Name], seen[r.topic] = true, true
		require.Equal(t, r.Type == family.Counter, strings.HasSuffix(r.Name, "_total"), r.Name)
	}
}

// FuzzAnswer has a broker say anything after it took the connection.
func FuzzAnswer(f *testing.F) {
	answer, err := os.ReadFile(recorded)
	require.NoError(f, err)
	f.Add(answer[4:])
	f.Add(append(suback(), publish(prefix+"uptime", "1 seconds")...))
	f.Add([]byte{packetPublish, 0xFF, 0xFF, 0xFF, 0x7F})
	f.Fuzz(func(t *testing.T, answer []byte) {
		client, server := net.Pipe()
		server.Close()
		defer client.Close()
		wanted := map[string]bool{prefix + "uptime": true}
		s := &session{conn: discard{client}, in: bufio.NewReader(bytes.NewReader(answer)), wanted: wanted, values: map[string]string{}}
		values, err := s.now()
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(values), 1)
		for _, v := range values {
			_, _ = number(v)
		}
	})
}

// discard is a connection that takes everything.
type discard struct{ net.Conn }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestAStringHasItsLengthBeforeIt(t *testing.T) {
	require.Equal(t, uint16(4), binary.BigEndian.Uint16(text(nil, "MQTT")))
}
