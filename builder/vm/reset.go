package vm

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// A reset leaves what QEMU has translated of the system before it where it was: each page of memory with such code
// stays guarded against writes, and a write beside the code is done by a slow way and leaves the guard (QEMU 7.2,
// accel/tcg/translate-all.c, tb_invalidate_phys_page_range__locked). Firmware and boot loader, whose data is now in
// those pages, then take 7 CPU seconds instead of 3, and beside other work 31. All of it is dropped when a debugger has
// had the machine do one step (gdbstub.c, gdb_vm_state_change), so that the machine gets QEMU's own debugger stub, and
// a step at each reset.

// debuggerLimit bounds the step.
const debuggerLimit = 10 * time.Second

// hasDebugger tells whether the machine has a debugger stub: where code is translated, and the machine resets itself.
func (c Config) hasDebugger() bool { return c.Reboots && c.Accel.Emulates() }

// debuggerArgs are the stub, and a monitor for the event of a reset.
func debuggerArgs(s scratch) []string {
	return []string{
		"-chardev", "socket,id=events,server=on,wait=off,path=" + s.events(), "-mon", "chardev=events,mode=control",
		"-chardev", "socket,id=debugger,server=on,wait=off,path=" + s.debugger(), "-gdb", "chardev:debugger",
	}
}

// watchResets drops what QEMU has translated at each reset, until QEMU ends.
func watchResets(events *qmp, debugger string) {
	for {
		if err := events.conn.SetDeadline(time.Time{}); err != nil {
			return
		}
		m, err := events.receive()
		if err != nil {
			return
		}
		if m.Event != "RESET" {
			continue
		}
		if events.run("stop", nil, nil) != nil || dropTranslated(debugger) != nil {
			// The machine is slower than it could be. It must not stand still.
			_ = events.run("cont", nil, nil)
		}
	}
}

// dropTranslated does one step of a machine that is stopped, by its debugger stub (GDB manual, appendix E, Remote Serial
// Protocol), and has it go on. Who connects stops a machine that runs, and is told so by QEMU before 8.1 alone.
func dropTranslated(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(debuggerLimit)); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	for _, step := range []struct{ send, want string }{
		{"$?#3f", "T05"},
		{"+$s#73", "T05"},
		{"+$D#44", "OK"}, // It goes on.
	} {
		if _, err := conn.Write([]byte(step.send)); err != nil {
			return err
		}
		answer, err := debuggerPacket(r)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(answer, step.want) {
			return fmt.Errorf("the debugger stub answers %.40q to %q", answer, step.send)
		}
	}
	return nil
}

// maxPacket bounds a packet in bytes.
const maxPacket = 4096

// debuggerPacket is the content of the next packet: what is between $ and #, before the two digits of its checksum.
func debuggerPacket(r *bufio.Reader) (string, error) {
	var text strings.Builder
	for begun := false; text.Len() < maxPacket; {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return "", err
		case begun && b == '#':
			_, err := r.Discard(2)
			return text.String(), err
		case begun:
			text.WriteByte(b)
		default:
			begun = b == '$'
		}
	}
	return "", errors.New("the debugger stub sends a packet without an end")
}
