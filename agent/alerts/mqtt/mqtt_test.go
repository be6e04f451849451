package mqtt

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
)

// listen is where a broker listens, and how clients know it.
func listen(t *testing.T) (net.Listener, *tls.Config) {
	t.Helper()
	ca, err := testca.New("broker")
	require.NoError(t, err)
	certificate, key, err := ca.Server("127.0.0.1")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, &tls.Config{RootCAs: ca.Pool()}
}

// fake is a broker that says what it is told to, and remembers what it heard.
func fake(t *testing.T, says ...[]byte) (Broker, func() []byte) {
	t.Helper()
	l, trust := listen(t)
	heard := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			heard <- nil
			return
		}
		defer c.Close()
		for _, s := range says {
			if _, err := c.Write(s); err != nil {
				break
			}
		}
		data, _ := io.ReadAll(c) // A client that goes away is an error.
		heard <- data
	}()
	return Broker{Address: l.Addr().String(), User: "line", Password: "swordfish", TLS: trust}, func() []byte { return <-heard }
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

var welcome = []byte{connack, 2, 0, 0}

func TestAMessageIsThereWhenTheBrokerSaysSo(t *testing.T) {
	b, heard := fake(t, welcome, []byte{puback, 2, 0, 1}, []byte{puback, 2, 0, 2})
	require.NoError(t, Publish(within(t, 10*time.Second), b, []Message{
		{Topic: "plant/a", Payload: []byte("one")}, {Topic: "plant/b", Payload: bytes.Repeat([]byte("x"), 200), Retain: true},
	}))
	got := heard()
	require.Equal(t, []byte{connect, 51, 0, 4, 'M', 'Q', 'T', 'T', 4, 0xc2, 0, 60, 0, 22}, got[:14])
	require.Contains(t, string(got), "\x00\x04line\x00\x09swordfish\x32\x0e\x00\x07plant/a\x00\x01one\x33\xd3\x01\x00\x07plant/b\x00\x02xxx")
	require.True(t, bytes.HasSuffix(got, []byte{disconnect, 0}))
}

// slow is a broker that acknowledges each message some time after it came, as one that is far away does.
func slow(t *testing.T, delay time.Duration) (Broker, func() int) {
	t.Helper()
	l, trust := listen(t)
	taken := make(chan int, 1)
	go func() {
		n := 0
		defer func() { taken <- n }()
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		packets := make(chan byte, 1000)
		go func() {
			defer close(packets)
			for {
				var head [2]byte // Each packet of this test is shorter than 128 bytes.
				if _, err := io.ReadFull(c, head[:]); err != nil {
					return
				}
				if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil {
					return
				}
				packets <- head[0] & 0xf0
			}
		}()
		for kind := range packets {
			switch kind {
			case connect:
				_, _ = c.Write(welcome)
			case publish:
				if n%ahead == 0 {
					time.Sleep(delay)
				}
				n++
				_, _ = c.Write([]byte{puback, 2, byte(n >> 8), byte(n)})
			}
		}
	}()
	return Broker{Address: l.Addr().String(), TLS: trust}, func() int { return <-taken }
}

func TestManyMessagesWaitForABrokerTogether(t *testing.T) {
	b, taken := slow(t, 20*time.Millisecond)
	messages := make([]Message, 200)
	for i := range messages {
		messages[i] = Message{Topic: "plant/a", Payload: []byte("x")}
	}
	require.NoError(t, Publish(within(t, 10*time.Second), b, messages))
	require.Equal(t, len(messages), taken())

	// What it acknowledges is read after as many as are sent ahead.
	together, heard := fake(t, welcome, []byte{puback, 2, 0, 9})
	require.ErrorContains(t, Publish(within(t, 10*time.Second), together, messages), "the broker has message 9, and was sent message 1")
	require.Equal(t, ahead, bytes.Count(heard(), []byte("plant/a")))
}

func TestBrokersThatDoNotTakeAMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		says []byte
		want string
	}{
		"it knows nobody of that name": {[]byte{connack, 2, 0, 5}, "the broker refuses: the user is not authorized"},
		"an unknown code":              {[]byte{connack, 2, 0, 77}, "the broker refuses with code 77"},
		"a web server":                 {[]byte("HTTP/1.1 400 Bad Request\r\n"), "which was not expected"},
		"a long answer":                {[]byte{connack, 0xff, 0xff, 0xff}, "which was not expected"},
		"another message":              {append(bytes.Clone(welcome), puback, 2, 0, 9), "the broker has message 9, and was sent message 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := fake(t, tt.says)
			require.ErrorContains(t, Publish(within(t, 10*time.Second), b, []Message{{Topic: "a"}}), tt.want)
		})
	}
	t.Run("it says nothing", func(t *testing.T) {
		b, _ := fake(t)
		require.ErrorContains(t, Publish(within(t, 200*time.Millisecond), b, []Message{{Topic: "a"}}), "read the broker's answer: ")
	})
	t.Run("its certificate is of somebody else", func(t *testing.T) {
		b, _ := fake(t, welcome)
		b.TLS = &tls.Config{}
		require.ErrorContains(t, Publish(within(t, 10*time.Second), b, []Message{{Topic: "a"}}), "unknown authority")
	})
	t.Run("nobody is there", func(t *testing.T) {
		require.ErrorContains(t, Publish(within(t, 10*time.Second), Broker{Address: net.JoinHostPort("127.0.0.1", "1")}, nil), "connect to the broker: ")
	})
}

func TestMessagesThatAreTooLong(t *testing.T) {
	_, err := publication(Message{Payload: make([]byte, MaxPayload+1)}, 1)
	require.ErrorContains(t, err, "a message has 65537 bytes; at most 65536 are sent")
	_, err = publication(Message{Topic: strings.Repeat("x", 0x10000)}, 1)
	require.ErrorContains(t, err, "a text has 65536 bytes")
}
