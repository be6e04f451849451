// Package probe has the verb probe: the node asks another machine and says how long the answer took. By ICMP whether it
// is there, by TCP whether something listens, by DNS what a name means to each server that the node asks.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"spore/agent/verbs"
	"spore/agent/verbs/network"
	"spore/wire/machine"
)

// Times of one probe: how long its answer is waited for, and how long after its beginning the next begins at the
// earliest.
const (
	answerBound = 2 * time.Second
	gap         = 500 * time.Millisecond
)

// Run answers with a machine.Probe for each try.
func Run(ctx context.Context, r *verbs.Run) (string, error) {
	kind, target := r.Argument("kind", ""), r.Argument("target", "")
	count, err := strconv.Atoi(r.Argument("count", strconv.Itoa(machine.DefaultProbes)))
	if err != nil {
		return "", fmt.Errorf("internal error: %w", err)
	}
	var ask []func(ctx context.Context, number int) machine.Probe
	switch kind {
	case machine.Ping:
		p, err := newPinger(ctx, target)
		if err != nil {
			return "", err
		}
		defer p.close()
		ask = append(ask, p.ask)
	case machine.TCP:
		to, err := place(ctx, target)
		if err != nil {
			return "", err
		}
		ask = append(ask, func(ctx context.Context, number int) machine.Probe { return connect(ctx, to, number) })
	case machine.DNS:
		questions, err := questions(r, target)
		if err != nil {
			return "", err
		}
		for _, q := range questions {
			ask = append(ask, q.ask)
		}
	default:
		return "", fmt.Errorf("there is no probe %q", kind)
	}
	if r.Order.DryRun {
		return fmt.Sprintf("would probe %s by %s %d times", target, kind, count*len(ask)), nil
	}
	return try(ctx, count, ask, func(p machine.Probe) error { return r.Result(p) })
}

// try asks so often, and tells each answer.
func try(ctx context.Context, count int, ask []func(context.Context, int) machine.Probe, tell func(machine.Probe) error) (string, error) {
	answered, best, worst, sum := 0, 0.0, 0.0, 0.0
	for number := range count {
		begun := time.Now()
		for _, a := range ask {
			each, cancel := context.WithTimeout(ctx, answerBound)
			p := a(each, number+1)
			cancel()
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			if p.Problem == "" {
				if answered++; answered == 1 || p.Milliseconds < best {
					best = p.Milliseconds
				}
				worst, sum = max(worst, p.Milliseconds), sum+p.Milliseconds
			}
			if err := tell(p); err != nil {
				return "", err
			}
		}
		if number == count-1 {
			break
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(gap - time.Since(begun)):
		}
	}
	done := fmt.Sprintf("%d of %d were answered", answered, count*len(ask))
	if answered > 0 {
		done += fmt.Sprintf(", in %.2f to %.2f ms, %.2f on average", best, worst, sum/float64(answered))
	}
	return done, nil
}

// since is milliseconds.
func since(begun time.Time) float64 { return float64(time.Since(begun).Microseconds()) / 1000 }

// resolve finds the address of a host.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of %s: %w", host, err)
	}
	return list[0].Unmap(), nil
}

// place is HOST:PORT with the host's address.
func place(ctx context.Context, target string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(target)
	n, wrong := strconv.ParseUint(port, 10, 16)
	if err != nil || wrong != nil || n == 0 || host == "" {
		return netip.AddrPort{}, fmt.Errorf("%q is not HOST:PORT", target)
	}
	a, err := resolve(ctx, host)
	return netip.AddrPortFrom(a, uint16(n)), err
}

// connect connects once.
func connect(ctx context.Context, to netip.AddrPort, number int) machine.Probe {
	p := machine.Probe{Number: number, To: to.String()}
	begun := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errTimeout(err):
		p.Problem = fmt.Sprintf("no answer within %s", answerBound)
	case err != nil:
		p.Problem = cause(err)
	default:
		p.Milliseconds, p.Answer = since(begun), "connected from "+conn.LocalAddr().String()
		_ = conn.Close()
	}
	return p
}

func errTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// cause is what the kernel said, without what was asked for.
func cause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// servers are those that a name is asked of.
func servers(r *verbs.Run) ([]string, error) {
	if s := r.Argument("server", ""); s != "" {
		return []string{s}, nil
	}
	list, _ := network.Resolver(r.Machine.Root)
	if len(list) == 0 {
		return nil, errors.New("this node has no DNS server; name one")
	}
	return list[:min(len(list), 3)], nil // Programs ask no more (resolv.conf(5), MAXNS).
}
