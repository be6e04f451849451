package vm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmpTimeout bounds one command of the monitor.
const qmpTimeout = 30 * time.Second

// qmp is a client of QEMU's monitor (docs/interop/qmp-spec.rst); events are dropped.
type qmp struct {
	mu   sync.Mutex
	conn net.Conn
	r    *bufio.Reader
}

type qmpMessage struct {
	QMP    json.RawMessage `json:"QMP"`
	Event  string          `json:"event"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// newQMP greets the monitor.
func newQMP(conn net.Conn) (*qmp, error) {
	q := &qmp{conn: conn, r: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(qmpTimeout)); err != nil {
		return nil, err
	}
	m, err := q.receive()
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	if m.QMP == nil {
		return nil, errors.New("monitor: no greeting")
	}
	return q, q.run("qmp_capabilities", nil, nil)
}

func (q *qmp) receive() (qmpMessage, error) {
	var m qmpMessage
	line, err := q.r.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

// run sends a command and waits for its answer, which is decoded into result unless that is nil.
func (q *qmp) run(command string, args, result any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	req := map[string]any{"execute": command}
	if args != nil {
		req["arguments"] = args
	}
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if err := q.conn.SetDeadline(time.Now().Add(qmpTimeout)); err != nil {
		return err
	}
	if _, err := q.conn.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("monitor command %s: %w", command, err)
	}
	for {
		m, err := q.receive()
		switch {
		case err != nil:
			return fmt.Errorf("monitor command %s: %w", command, err)
		case m.Error != nil:
			return fmt.Errorf("monitor command %s: %s: %s", command, m.Error.Class, m.Error.Desc)
		case m.Return != nil && result != nil:
			return json.Unmarshal(m.Return, result)
		case m.Return != nil:
			return nil
		}
	}
}
