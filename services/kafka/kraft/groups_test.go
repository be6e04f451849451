package kraft

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answering is a broker at the other end of a pipe.
type answering struct {
	topics    []Topic
	groups    []string
	confirmed map[string]map[string]int64 // the offset in partition 0 of topics, by group
	end       int64
	silent    int16 // a request of this key gets no answer; 0 is none

	mu    sync.Mutex
	asked map[int16]int
}

func (a *answering) dial(t *testing.T) *Conn {
	ours, theirs := net.Pipe()
	a.asked = map[int16]int{}
	go a.serve(theirs)
	t.Cleanup(func() { _ = theirs.Close() })
	return &Conn{conn: ours, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

func (a *answering) serve(conn net.Conn) {
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, frame); err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		q := kmsg.RequestForKey(key)
		q.SetVersion(version)
		body := frame[10+int(binary.BigEndian.Uint16(frame[8:])):]
		head := frame[4:8:8] // the correlation
		if q.IsFlexible() {
			body, head = body[1:], append(head, 0)
		}
		if q.ReadFrom(body) != nil {
			return
		}
		a.mu.Lock()
		a.asked[key]++
		a.mu.Unlock()
		if key == a.silent {
			continue
		}
		answer := append(head, a.answer(q).AppendTo(nil)...)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (a *answering) answer(q kmsg.Request) kmsg.Response {
	r := q.ResponseKind()
	switch r := r.(type) {
	case *kmsg.MetadataResponse:
		for _, topic := range a.topics {
			t := kmsg.NewMetadataResponseTopic()
			t.Topic = kmsg.StringPtr(topic.Name)
			for _, partition := range topic.Partitions {
				p := kmsg.NewMetadataResponseTopicPartition()
				p.Partition, p.Leader = partition.Number, partition.Leader
				t.Partitions = append(t.Partitions, p)
			}
			r.Topics = append(r.Topics, t)
		}
	case *kmsg.ListGroupsResponse:
		for _, name := range a.groups {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.GroupState = name, "Stable"
			r.Groups = append(r.Groups, g)
		}
	case *kmsg.OffsetFetchResponse:
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group = q.(*kmsg.OffsetFetchRequest).Groups[0].Group
		if strings.HasPrefix(g.Group, "bad") {
			g.ErrorCode = 30 // GROUP_AUTHORIZATION_FAILED
		}
		for topic, offset := range a.confirmed[g.Group] {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Offset, t.Topic = offset, topic
			t.Partitions = append(t.Partitions, p)
			g.Topics = append(g.Topics, t)
		}
		r.Groups = append(r.Groups, g)
	case *kmsg.ListOffsetsResponse:
		for _, asked := range q.(*kmsg.ListOffsetsRequest).Topics {
			t := kmsg.NewListOffsetsResponseTopic()
			t.Topic = asked.Topic
			for _, partition := range asked.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.Offset = partition.Partition, a.end
				t.Partitions = append(t.Partitions, p)
			}
			r.Topics = append(r.Topics, t)
		}
	}
	return r
}

// lagOf asks some brokers, and returns the rows of each, and what was said.
func lagOf(t *testing.T, brokers map[int32]*answering) (parts [][]Lag, said string, err error) {
	t.Helper()
	var lines []string
	l := &lags{conns: map[int32]*Conn{}, say: func(text string) { lines = append(lines, text) }, bound: time.Second}
	for _, id := range []int32{1, 2, 3} {
		l.brokers = append(l.brokers, id)
		if b := brokers[id]; b != nil {
			l.conns[id] = b.dial(t)
		}
	}
	defer l.close()
	err = l.all(t.Context(), func(rows []Lag) error {
		parts = append(parts, rows)
		return nil
	})
	return parts, strings.Join(lines, "\n"), err
}

// three brokers lead a topic each; the groups g and h are the first one's, i is the third one's.
func three() map[int32]*answering {
	topics := []Topic{
		{Name: "a", Partitions: []Partition{{Number: 0, Leader: 1}}}, {Name: "b", Partitions: []Partition{{Number: 0, Leader: 2}}},
		{Name: "c", Partitions: []Partition{{Number: 0, Leader: -1}}},
	}
	return map[int32]*answering{
		1: {topics: topics, groups: []string{"h", "g"}, end: 100, confirmed: map[string]map[string]int64{"g": {"a": 90, "b": 150}, "h": {"b": 200, "c": 1}}},
		2: {topics: topics, end: 200},
		3: {topics: topics, groups: []string{"i"}, confirmed: map[string]map[string]int64{"i": {"a": 120}}},
	}
}

func TestLagsComeBrokerByBroker(t *testing.T) {
	brokers := three()
	parts, said, err := lagOf(t, brokers)
	require.NoError(t, err)
	require.Empty(t, said)
	require.Equal(t, [][]Lag{
		{{"g", "Stable", "a", 10, 0}, {"g", "Stable", "b", 50, 0}, {"h", "Stable", "b", 0, 0}, {"h", "Stable", "c", 0, 1}},
		{{"i", "Stable", "a", 0, 0}}, // It has confirmed more since the end was asked for.
	}, parts)
	listOffsets := (&kmsg.ListOffsetsRequest{}).Key()
	require.Equal(t, 1, brokers[2].asked[listOffsets], "one question is for both groups")
}

func TestABrokerThatStopsToAnswerCostsWhatItKnows(t *testing.T) {
	for name, tc := range map[string]struct {
		broker int32
		silent kmsg.Request
		rows   int
		said   string
	}{
		"its topics":     {1, &kmsg.MetadataRequest{}, 1, "broker 1: ask Kafka for Metadata"},
		"its groups":     {1, &kmsg.ListGroupsRequest{}, 1, "broker 1: ask Kafka for ListGroups"},
		"how far one is": {1, &kmsg.OffsetFetchRequest{}, 1, "broker 1: 2 of its groups are missing: ask Kafka for OffsetFetch"},
		"its ends":       {2, &kmsg.ListOffsetsRequest{}, 5, "broker 2: ask Kafka for ListOffsets"},
	} {
		t.Run(name, func(t *testing.T) {
			brokers := three()
			brokers[tc.broker].silent = tc.silent.Key()
			parts, said, err := lagOf(t, brokers)
			require.NoError(t, err)
			rows := 0
			for _, part := range parts {
				rows += len(part)
			}
			require.Equal(t, tc.rows, rows)
			require.Contains(t, said, tc.said)
			require.Equal(t, 1, strings.Count(said, "broker"), "it is asked nothing more: "+said)
			require.Equal(t, 1, brokers[tc.broker].asked[tc.silent.Key()])
		})
	}
}

func TestAGroupThatIsRefusedCostsItself(t *testing.T) {
	brokers := three()
	brokers[1].groups = []string{"bad", "g"}
	parts, said, err := lagOf(t, brokers)
	require.NoError(t, err)
	require.Contains(t, said, `group "bad": `)
	require.Len(t, parts, 2)
	require.Len(t, parts[0], 2)
}

func TestWithoutABrokerThereAreNoLags(t *testing.T) {
	var said []string
	dial := func(context.Context, int32) (*Conn, error) { return nil, errors.New("away") }
	err := Lags(t.Context(), []int32{1, 2}, dial, func(s string) { said = append(said, s) }, func([]Lag) error { return nil })
	require.EqualError(t, err, "no broker answers")
	require.Equal(t, []string{"broker 1: away", "broker 2: away"}, said)
}
