package monitor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
)

// maxAnswer bounds what a daemon answers at its admin socket, in bytes.
const maxAnswer = 4 << 20

// socketBound is the longest that a daemon may take for an answer.
const socketBound = 10 * time.Second

// ask gives a command to a daemon at its admin socket (src/common/admin_socket.cc of Ceph): the command as JSON ends with a
// zero byte, the answer begins with its length in four bytes, the highest first.
func ask(ctx context.Context, path, command string) ([]byte, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	until := time.Now().Add(socketBound)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	if err := conn.SetDeadline(until); err != nil {
		return nil, err
	}
	request, err := json.Marshal(map[string]string{"prefix": command, "format": "json"})
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(append(request, 0)); err != nil {
		return nil, err
	}
	return readAnswer(conn)
}

func readAnswer(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("read the length of the answer: %w", err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return nil, fmt.Errorf("the answer has %d bytes, more than %d", n, maxAnswer)
	}
	// Not as large as it says before it is that large.
	out, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(out) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return out, nil
}

// MonStatus is what a monitor says of itself (mon_status).
type MonStatus struct {
	Name string `json:"name"`
	// State is probing, synchronizing, electing, leader or peon.
	State  string `json:"state"`
	Quorum []int  `json:"quorum"`
	// Outside lists the monitors that it knows of while it is in no quorum.
	Outside []string `json:"outside_quorum"`
	Map     struct {
		FSID string `json:"fsid"`
		Mons []struct {
			Rank int    `json:"rank"`
			Name string `json:"name"`
		} `json:"mons"`
	} `json:"monmap"`
}

// InQuorum tells whether the monitor is one of a quorum.
func (s MonStatus) InQuorum() bool { return s.State == "leader" || s.State == "peon" }

// Others lists the names of the other monitors of its map, sorted.
func (s MonStatus) Others() []string {
	var out []string
	for _, m := range s.Map.Mons {
		if m.Name != s.Name {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	return out
}

// parseMonStatus reads the answer to mon_status.
func parseMonStatus(data []byte) (MonStatus, error) {
	var s MonStatus
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the monitor's status: %w", err)
	}
	if s.State == "" {
		return s, errors.New("read the monitor's status: it has no state")
	}
	return s, nil
}

// Status asks the monitor of an admin socket how it is.
func Status(ctx context.Context, socket string) (MonStatus, error) {
	data, err := ask(ctx, socket, "mon_status")
	if err != nil {
		return MonStatus{}, fmt.Errorf("ask the monitor: %w", err)
	}
	return parseMonStatus(data)
}

// mostPause is the longest pause between two looks at a monitor: it logs each of them.
const mostPause = 5 * time.Second

// AwaitQuorum returns when the monitor of an admin socket is one of a quorum. It says for whom it waits whenever that
// changes. alive tells whether the monitor still runs.
func AwaitQuorum(ctx context.Context, socket string, alive func() bool, say func(string)) error {
	last := ""
	pause := 100 * time.Millisecond
	for {
		s, err := Status(ctx, socket)
		if err == nil && s.InQuorum() {
			return nil
		}
		if !alive() {
			return errors.New("the monitor ended before it was one of a quorum; the journal has its last words")
		}
		text := "waits for the monitor to answer"
		if err == nil {
			text = waitText(s)
		}
		if text != last {
			say(text)
			last = text
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", text, ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// waitText says for whom a monitor outside of a quorum waits.
func waitText(s MonStatus) string {
	others := s.Others()
	switch {
	case s.State == "synchronizing":
		return "takes over the data of the other monitors"
	case len(others) == 0:
		return "the monitor is " + s.State
	}
	return fmt.Sprintf("waits for a quorum with %s; the monitor is %s", strings.Join(others, ", "), s.State)
}
