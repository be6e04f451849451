// Package rolehealth asks a role that a configuration has of its own whether it does its work, as the file of the role
// says (health): by a connection, by a request, by a line of its journal, or by a command, which a unit of the role's
// user has run. It needs no privileges but to read the journal.
package rolehealth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spore/cluster/role"
	"spore/cluster/spec"
)

// Bound is how long one question may take.
const Bound = 5 * time.Second

// maxHeaders bounds the headers of an answer, in bytes; its body is not read.
const maxHeaders = 64 << 10

// Asker is where and how this node is asked.
type Asker struct {
	// Addresses are those by which others reach the node.
	Addresses []netip.Addr
	// Services are the settings that give ports.
	Services spec.Services
	// Journal reads the journal.
	Journal Journal
	// Results is the directory in which units that run commands have their directories: /run.
	Results string
	// SinceBoot is the time in seconds since boot.
	SinceBoot func() float64
}

// Ask returns what is known of a role and its health, in one line, and an error that says why it does not do its work.
// Without a question it returns neither.
func (a Asker) Ask(ctx context.Context, d *role.Definition) (string, error) {
	h := d.Health
	if h == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	switch {
	case h.Port != 0:
		return a.try(d, h.Port, func(address string) (string, error) { return connect(ctx, address) })
	case h.HTTP != nil:
		return a.try(d, h.HTTP.Port, func(address string) (string, error) { return get(ctx, address, *h.HTTP) })
	case h.Journal != "":
		return a.Journal.has(ctx, d.LogUnits(), d.Triggered(), h.Journal)
	case d.AsksByCommand():
		return a.result(d)
	}
	return "", nil
}

// try asks at each address where the port is, until one answers.
func (a Asker) try(d *role.Definition, number int, ask func(address string) (string, error)) (string, error) {
	to := []string{"127.0.0.1"}
	for _, p := range d.Ports {
		if p.Port != number || p.Protocol == role.UDP {
			continue
		}
		if p.At == role.Node {
			to = a.reachable()
		}
		number = d.PortNumber(p, a.Services)
		break
	}
	if len(to) == 0 {
		return "", errors.New("the node has no address at which it could be asked")
	}
	var first error
	for _, host := range to {
		text, err := ask(net.JoinHostPort(host, strconv.Itoa(number)))
		if err == nil {
			return text, nil
		}
		first = cmp.Or(first, err)
	}
	return "", first
}

// reachable are the addresses that another node could ask at.
func (a Asker) reachable() []string {
	var out []string
	for _, ip := range a.Addresses {
		if !ip.IsLinkLocalUnicast() && !ip.IsLoopback() {
			out = append(out, ip.String())
		}
	}
	return out
}

func connect(ctx context.Context, address string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("nobody listens at %s: %w", address, reason(err))
	}
	return "listens at " + address, c.Close()
}

func get(ctx context.Context, address string, h role.HTTP) (string, error) {
	// The path is that of the file: it may have a question in it.
	to, err := url.Parse("http://" + address + h.Path)
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", h.Path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return "", fmt.Errorf("ask for %s: %w", h.Path, err)
	}
	client := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaders},
		// The status is what counts; where it leads to is not asked.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", to, reason(err))
	}
	want := cmp.Or(h.Status, http.StatusOK)
	if err := res.Body.Close(); err != nil {
		return "", fmt.Errorf("GET %s: %w", to, err)
	}
	if res.StatusCode != want {
		return "", fmt.Errorf("GET %s is answered by the status %d, and %d is expected", to, res.StatusCode, want)
	}
	return fmt.Sprintf("GET %s is answered by the status %d", to, res.StatusCode), nil
}

// reason is what stands at the end of an error of the network, without what was said already.
func reason(err error) error {
	var no syscall.Errno
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %s", Bound)
	}
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Line is a text of others in one line of letters that a terminal shows as they are.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

// maxShown is how much of a line of the journal is shown, in bytes.
const maxShown = 120
