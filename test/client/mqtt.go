// Package client talks to the services as their users do: MQTT over TLS by paho, DNS by miekg/dns, Kafka by franz-go,
// Valkey by a few lines of its own. The end-to-end tests and the tests of the rendered configuration share it.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// mqttTimeout bounds one exchange with a broker; emulation is slow.
const mqttTimeout = 30 * time.Second

// ErrDenied is returned when the broker refuses a subscription.
var ErrDenied = errors.New("the broker denies the subscription")

// MQTT is a connection to a broker.
type MQTT struct {
	c        mqtt.Client
	mu       sync.Mutex
	messages map[string][]Message
	arrived  chan struct{}
}

// Message is one message that arrived.
type Message struct {
	Payload  string
	Retained bool
}

// MQTTOptions says whom to connect to, and as whom.
type MQTTOptions struct {
	// Address is host:port; ServerName what the broker's certificate must be for.
	Address, ServerName string
	Roots               *x509.CertPool
	ID, User, Password  string
	// Time is the client's clock; the host's when nil.
	Time func() time.Time
}

// DialMQTT connects with TLS.
func DialMQTT(o MQTTOptions) (*MQTT, error) {
	m := &MQTT{messages: map[string][]Message{}, arrived: make(chan struct{}, 1)}
	opts := mqtt.NewClientOptions().AddBroker("ssl://" + o.Address).SetClientID(o.ID).SetUsername(o.User).SetPassword(o.Password).
		SetTLSConfig(&tls.Config{RootCAs: o.Roots, ServerName: o.ServerName, Time: o.Time}).
		SetConnectTimeout(mqttTimeout).SetAutoReconnect(false).SetConnectRetry(false).SetProtocolVersion(4)
	m.c = mqtt.NewClient(opts)
	return m, wait("connect", m.c.Connect())
}

func wait(what string, t mqtt.Token) error {
	if !t.WaitTimeout(mqttTimeout) {
		return fmt.Errorf("%s: no answer from the broker within %v", what, mqttTimeout)
	}
	if t.Error() != nil {
		return fmt.Errorf("%s: %w", what, t.Error())
	}
	return nil
}

// Publish sends a message with quality of service 1 and waits until the broker has it.
func (m *MQTT) Publish(topic, payload string, retain bool) error {
	return wait("publish to "+topic, m.c.Publish(topic, 1, retain, payload))
}

// Subscribe waits until the broker has the subscription; ErrDenied when it refuses.
func (m *MQTT) Subscribe(topic string) error {
	t := m.c.Subscribe(topic, 1, func(_ mqtt.Client, msg mqtt.Message) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.messages[msg.Topic()] = append(m.messages[msg.Topic()], Message{string(msg.Payload()), msg.Retained()})
		select {
		case m.arrived <- struct{}{}:
		default:
		}
	})
	err := wait("subscribe to "+topic, t)
	// 0x80 in SUBACK is a failure (MQTT 3.1.1, 3.9.3); paho tells it in the result, and in the error since 1.5.
	if st, ok := t.(*mqtt.SubscribeToken); ok && st.Result()[topic] == 0x80 {
		return fmt.Errorf("subscribe to %s: %w", topic, ErrDenied)
	}
	return err
}

// Messages are those of a topic that arrived so far.
func (m *MQTT) Messages(topic string) []Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Message(nil), m.messages[topic]...)
}

// Await waits for a message of a topic.
func (m *MQTT) Await(topic string, limit time.Duration) (Message, error) {
	deadline := time.After(limit)
	for {
		if got := m.Messages(topic); len(got) > 0 {
			return got[len(got)-1], nil
		}
		select {
		case <-m.arrived:
		case <-deadline:
			return Message{}, fmt.Errorf("no message of %s within %v", topic, limit)
		}
	}
}

// Close ends the connection.
func (m *MQTT) Close() { m.c.Disconnect(100) }
