package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// KafkaOptions says whom to connect to, and as whom.
type KafkaOptions struct {
	// Seeds are host:port of brokers.
	Seeds []string
	Roots *x509.CertPool
	// User and Password are those of SCRAM-SHA-512.
	User, Password string
	// Dial replaces the way to a broker's address, such as through a forwarded port; nil takes the address as it is.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewKafka makes a client of Kafka with TLS and SCRAM. It connects when it is used.
func NewKafka(o KafkaOptions, more ...kgo.Opt) (*kgo.Client, error) {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Seeds...),
		kgo.SASL(scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism()),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			secure := tls.Client(conn, &tls.Config{RootCAs: o.Roots, ServerName: host})
			if err := secure.HandshakeContext(ctx); err != nil {
				conn.Close()
				return nil, err
			}
			return secure, nil
		}),
		// A broker that lost its power is to be left soon, and found again soon.
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second), kgo.RequestTimeoutOverhead(5 * time.Second),
	}
	return kgo.NewClient(append(opts, more...)...)
}

// Ledger produces numbered records with acks=all and remembers which of them were acknowledged.
type Ledger struct {
	topic string
	c     *kgo.Client
	stop  context.CancelFunc
	done  chan struct{}
	mu    sync.Mutex
	acked map[int]bool
	next  int
	err   error
}

// inFlight is how many records a ledger has under way.
const inFlight = 200

// StartLedger begins to produce to a topic, from number first on, until Stop. Records keep being tried until they are
// acknowledged.
func StartLedger(o KafkaOptions, topic string, first int) (*Ledger, error) {
	c, err := NewKafka(o, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(inFlight), kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Ledger{topic: topic, c: c, stop: stop, done: make(chan struct{}), acked: map[int]bool{}, next: first}
	go l.produce(ctx)
	return l, nil
}

func (l *Ledger) produce(ctx context.Context) {
	defer close(l.done)
	for ; ctx.Err() == nil; l.next++ {
		number := l.next
		record := &kgo.Record{Key: []byte(strconv.Itoa(number % 16)), Value: []byte(strconv.Itoa(number))}
		// It blocks while all that may be under way is.
		l.c.Produce(ctx, record, func(_ *kgo.Record, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case err == nil:
				l.acked[number] = true
			case ctx.Err() == nil && l.err == nil:
				l.err = fmt.Errorf("record %d: %w", number, err)
			}
		})
	}
}

// Acknowledged is how many records were acknowledged so far. An error is one of a record that will not be tried again.
func (l *Ledger) Acknowledged() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), l.err
}

// Stop ends the producer and returns the numbers that were acknowledged.
func (l *Ledger) Stop() map[int]bool {
	l.stop()
	<-l.done
	l.c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// Next is the number after the last one that was produced. Call it after Stop.
func (l *Ledger) Next() int { return l.next }

// ReadLedger reads what is committed in a topic by now and returns how often each number is in it.
func ReadLedger(ctx context.Context, o KafkaOptions, topic string) (map[int]int, error) {
	c, err := NewKafka(o, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ask where %s ends: %w", topic, err)
	}
	left := map[int32]int64{}
	ends.Each(func(e kadm.ListedOffset) {
		if e.Offset > 0 {
			left[e.Partition] = e.Offset
		}
	})
	out := map[int]int{}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read %s, of which partitions are left up to %v: %w", topic, left, err)
		}
		var bad error
		fetches.EachError(func(_ string, partition int32, err error) {
			bad = fmt.Errorf("read %s, partition %d: %w", topic, partition, err)
		})
		fetches.EachRecord(func(r *kgo.Record) {
			number, err := strconv.Atoi(string(r.Value))
			if err != nil {
				bad = fmt.Errorf("read %s: %w", topic, err)
			}
			out[number]++
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
		if bad != nil {
			return nil, bad
		}
	}
	return out, nil
}
