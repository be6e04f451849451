package answers

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spore/agent/api"
	"spore/agent/node"
	"spore/agent/paths"
	emergency "spore/agent/shell"
	"spore/agent/trail"
	"spore/wire/nodeapi"
	"spore/wire/shell"
)

// shellBound is how long a connection with a shell lasts at most: the process of root ends it before
// (spore-shell@.service).
const shellBound = (shell.MaxMinutes + 5) * time.Minute

// shellStart is how long the process of root may take to let a call in.
const shellStart = 20 * time.Second

// shellRow turns a connection into one of an emergency shell. One is open at once; there is room for who is told that.
func shellRow(m *node.Machine, k *trail.Keeper) api.Row {
	return api.Row{
		Method: http.MethodPost, Path: nodeapi.ShellPath, Who: nodeapi.Owners(), AtOnce: 4, Bound: shellBound, Traced: true,
		Handle: func(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller) { openShell(w, r, caller, m, k) },
	}
}

// openShell hands a call to the process of root, and passes on what both sides say. It knows nothing of whether a grant
// holds. That a shell is asked for is a record before it opens, and how it ended another one.
func openShell(w http.ResponseWriter, r *http.Request, caller nodeapi.Caller, m *node.Machine, k *trail.Keeper) {
	if !emergency.Built(m.Root) {
		http.Error(w, "this image has no shell; write `shell: granted` into image.yaml, build it again, and push it",
			http.StatusNotFound)
		return
	}
	call, g, err := shellCall(r, caller)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	record := recordOf("shell", r, caller)
	record.Arguments = map[string]string{"grant": g.ID, "reason": g.Reason, "minutes": strconv.Itoa(g.Minutes)}
	end := k.Begin(r.Context(), record)
	root, from, err := callShell(r.Context(), m, call)
	if err != nil {
		end(nodeapi.Erred, err.Error())
		status := http.StatusForbidden
		switch {
		case errors.As(err, new(*net.OpError)):
			m.Say(err.Error())
			status = http.StatusServiceUnavailable
			err = errors.New("what opens a shell does not run; see the journal of " + emergency.Unit)
		case errors.Is(err, io.EOF): // It was killed, or systemd has closed one connection too many.
			m.Say(err.Error())
			status = http.StatusServiceUnavailable
			err = errors.New("what opens a shell ended without an answer; come again, or see the journal of " + emergency.Unit)
		}
		http.Error(w, err.Error(), status)
		return
	}
	defer root.Close()
	outcome, err := join(w, r, root, from)
	switch {
	case err != nil:
		end(nodeapi.Erred, err.Error())
	case outcome.Why != "":
		end(nodeapi.Erred, "the shell ended: "+outcome.String())
	default:
		end(nodeapi.Did, "the shell ended: "+outcome.String())
	}
}

// shellCall reads what is asked for.
func shellCall(r *http.Request, caller nodeapi.Caller) (emergency.Call, shell.Grant, error) {
	call := emergency.Call{
		Caller: caller.Name, Serial: caller.Serial, Fingerprint: caller.Fingerprint, Roles: caller.Roles, From: r.RemoteAddr,
	}
	upgrade := strings.EqualFold(r.Header.Get("Connection"), "Upgrade")
	if !upgrade || !strings.EqualFold(r.Header.Get("Upgrade"), shell.Protocol) {
		return call, shell.Grant{}, fmt.Errorf("a shell is asked for by an upgrade to %s; use `spore shell`", shell.Protocol)
	}
	var err error
	if call.Grant, err = base64.StdEncoding.DecodeString(r.Header.Get(shell.GrantHeader)); err != nil {
		return call, shell.Grant{}, errors.New("the grant is malformed")
	}
	g, err := shell.Peek(call.Grant)
	if err != nil {
		return call, g, err
	}
	call.Terminal, err = terminalOf(r.URL.Query())
	return call, g, err
}

// terminalOf is the terminal that a request names; nil where it names none.
func terminalOf(q url.Values) (*shell.Terminal, error) {
	if !q.Has(shell.TermParameter) {
		return nil, nil
	}
	t := shell.Terminal{Kind: q.Get(shell.TermParameter)}
	for name, to := range map[string]*uint16{shell.RowsParameter: &t.Rows, shell.ColumnsParameter: &t.Columns} {
		n, err := strconv.ParseUint(q.Get(name), 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s is not a number", name)
		}
		*to = uint16(n)
	}
	return &t, t.Check()
}

// callShell has the process of root let a call in. What it has said already behind its answer is still to be read.
func callShell(ctx context.Context, m *node.Machine, call emergency.Call) (net.Conn, *bufio.Reader, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.Root.At(paths.ShellSocket))
	if err != nil {
		return nil, nil, fmt.Errorf("hand over a shell: %w", err)
	}
	from := bufio.NewReaderSize(conn, 2*shell.MaxFrame)
	data, err := json.Marshal(call)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(shellStart))
	}
	if err == nil {
		_, err = conn.Write(append(data, '\n'))
	}
	var line []byte
	if err == nil {
		line, err = from.ReadSlice('\n')
	}
	var a emergency.Answer
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	switch {
	case err != nil:
		err = fmt.Errorf("the node has not opened a shell: %w", err)
	case a.Error != "":
		err = errors.New(a.Error)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, from, nil
}

// join passes on frames between the caller and the process of root until one of them ends, the certificate ends or is
// withdrawn, or the API stops.
func join(w http.ResponseWriter, r *http.Request, root net.Conn, from *bufio.Reader) (shell.Outcome, error) {
	lost := shell.Outcome{Why: "the connection was lost"}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return lost, fmt.Errorf("take the connection for a shell: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(r.Context(), shellBound)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = root.Close() // The process of root ends the session then, also while its shell takes nothing.
	})
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(shell.Silence)); err != nil {
		return lost, nil
	}
	const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + shell.Protocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, switching); err != nil {
		return lost, nil
	}
	go func() {
		caller := &patient{conn: conn, from: both.Reader}
		_, _ = io.Copy(root, caller)
		// A process of root that takes nothing more is still to say how the session ended.
		if caller.gone {
			_ = root.Close()
		}
	}()
	for {
		kind, data, err := shell.ReadFrame(from)
		if err != nil {
			return lost, nil
		}
		if err := conn.SetWriteDeadline(time.Now().Add(shell.Silence)); err != nil {
			return lost, nil
		}
		if err := shell.WriteFrame(conn, kind, data); err != nil {
			return lost, nil
		}
		if kind == shell.Exit {
			return shell.ParseOutcome(data)
		}
	}
}

// patient reads from a connection whose other side gives a sign now and then.
type patient struct {
	conn net.Conn
	from io.Reader
	// gone is true when nothing more comes.
	gone bool
}

func (p *patient) Read(b []byte) (int, error) {
	err := p.conn.SetReadDeadline(time.Now().Add(shell.Silence))
	var n int
	if err == nil {
		n, err = p.from.Read(b)
	}
	p.gone = err != nil
	return n, err
}
