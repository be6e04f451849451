// Command spore-logs sends what its node logs to the stores of logs. docs/logs.md tells what for.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"spore/agent/logs/peer"
	"spore/agent/logs/send"
	"spore/services/logs"
	"spore/services/logs/sending"
	"spore/storage/atomicfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "spore-logs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "share" {
		return share(args[1])
	}
	if len(args) == 2 && args[0] == "repair" {
		return repair(args[1], say)
	}
	if len(args) != 3 {
		return fmt.Errorf("it takes three arguments: the file that spore-agent renders, and the folders of its state and "+
			"its counters; it has %d", len(args))
	}
	data, err := atomicfile.ReadLimited(args[0], sending.MaxSize)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	c, err := sending.Parse(data)
	if err != nil {
		return err
	}
	uid, err := uidOf(logs.Uploader)
	if err != nil {
		return err
	}
	s, err := send.New(send.Options{
		Config: c, Dir: args[1], RunDir: args[2], Sources: sources(c, args[1], say), Journals: journals(machineID), May: only(uid), Now: time.Now,
		Say: say, Status: func(s string) { notify("STATUS=" + s) },
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", sending.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	notify(daemon.SdNotifyReady)
	return s.Run(ctx, l)
}

// say tells the journal.
func say(text string) { fmt.Fprintln(os.Stderr, "spore-logs:", text) }

// notify tells systemd, where it has started this.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		say("tell systemd: " + err.Error())
	}
}

func uidOf(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, fmt.Errorf("find who brings the journal: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("find who brings the journal: %w", err)
	}
	return uint32(uid), nil
}

// only takes connections of one account.
func only(uid uint32) func(net.Conn) error {
	return func(c net.Conn) error {
		got, err := peer.UID(c)
		if err == nil && got != uid {
			err = fmt.Errorf("it is of the account %d, not %d", got, uid)
		}
		return err
	}
}
