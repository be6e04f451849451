// Package text has the commands of maintainer scripts that work on text, with the meaning that GNU coreutils, diffutils
// and grep, GNU sed and mawk give them in the locale C. None sees the machine that builds: names, kernel and time are
// fixed.
//
// Each command reads and holds at most stream.MaxInput bytes and prints at most stream.MaxOutput. An option that a
// command does not know ends the replay. A file that is missing is a message and a status, as the real commands do it.
package text

import (
	"context"

	"spore/builder/replay/command"
	"spore/builder/replay/text/awk"
	"spore/builder/replay/text/grep"
	"spore/builder/replay/text/sed"
	"spore/builder/replay/text/stream"
)

// Commands returns the commands by their names.
func Commands() command.Table {
	t := command.Table{
		"grep": grep.Command("grep"), "egrep": grep.Command("egrep"), "fgrep": grep.Command("fgrep"),
		"sed": sed.Command(),
	}
	for _, name := range []string{"awk", "mawk", "gawk", "nawk", "original-awk"} {
		t[name] = awk.Command()
	}
	for name, fn := range map[string]command.Func{
		"cat": cat, "tac": tac, "head": head, "tail": tail, "wc": wc, "nl": nl, "fold": fold, "rev": rev, "tee": tee,
		"cut": cut, "paste": paste, "join": join, "comm": comm, "tr": tr, "sort": sortLines, "uniq": uniq,
		"seq": seq, "expr": expr, "od": od, "base64": base64Command, "cmp": cmp, "diff": diff,
		"md5sum": sum, "sha1sum": sum, "sha224sum": sum, "sha256sum": sum, "sha384sum": sum, "sha512sum": sum,
		"cksum": cksum,
		"date":  date, "sleep": nothing, "sync": nothing, "uname": uname, "arch": arch, "nproc": nproc,
		"hostname": hostname, "getopt": getoptCommand, "locale": locale, "iconv": iconv,
		"tty": tty, "logger": nothing, "clear": nothing, "true": nothing, "false": no, "yes": refused,
	} {
		t[name] = stream.Buffered(fn)
	}
	return t
}

// nothing is for commands whose effect no image keeps: sleep, sync, logger, clear; and for true.
func nothing(context.Context, *command.Call) (int, error) { return 0, nil }

func no(context.Context, *command.Call) (int, error) { return 1, nil }

// refused is for a command that never ends.
func refused(_ context.Context, c *command.Call) (int, error) {
	return c.Unknown("to print for ever")
}
