package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serve answers each connection with what answer says of it, and returns the address.
func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// device answers requests with the register's address times ten.
func device(conn net.Conn) {
	for ask := make([]byte, 12); ; {
		if _, err := io.ReadFull(conn, ask); err != nil {
			return
		}
		conn.Write([]byte{ask[0], ask[1], 0, 0, 0, 5, ask[6], 3, 2, 0, ask[9] * 10})
	}
}

func TestRegistersAreWrittenToTheStore(t *testing.T) {
	got := make(chan string, 20)
	store := serve(t, func(conn net.Conn) {
		in := bufio.NewScanner(conn)
		for n := 1; in.Scan(); n++ {
			got <- in.Text()
			if n%7 == 0 { // *3 and three words of two lines each.
				io.WriteString(conn, "+OK\r\n")
			}
		}
	})
	g, err := open(settings{Device: serve(t, device), Store: store, User: "gateway", Password: "pass word"})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if err := g.copy([]register{{Address: 7, Key: "device:x"}}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for range 14 {
		lines = append(lines, <-got)
	}
	want := "*3 $4 AUTH $7 gateway $9 pass word *3 $3 SET $8 device:x $2 70"
	if text := strings.Join(lines, " "); text != want {
		t.Fatalf("got %s, want %s", text, want)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	say := func(text string) string {
		return serve(t, func(conn net.Conn) {
			io.ReadAtLeast(conn, make([]byte, 64), 12)
			io.WriteString(conn, text)
		})
	}
	connect := func(address string) net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for want, text := range map[string]string{
		"exception code 2": "\x00\x01\x00\x00\x00\x03\xff\x83\x02",
		"another request":  "\x00\x09\x00\x00\x00\x05\xff\x03\x02\x00\x01",
		"not have one":     "\x00\x01\x00\x00\x00\x07\xff\x03\x04\x00\x01\x00\x01",
		"EOF":              "\x00\x01",
		"unexpected EOF":   "\x00\x01\x00\x00\x00\x05\xff\x03\x02\x00",
	} {
		if _, err := (&modbus{conn: connect(say(text))}).read(7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the device says %q: got %v, want %s", text, err, want)
		}
	}
	for want, text := range map[string]string{
		"WRONGPASS":     "-WRONGPASS invalid\r\n",
		"instead of OK": ":1\r\n",
		"EOF":           "+O",
		"buffer full":   "+" + strings.Repeat("x", 2*maxAnswer),
	} {
		if err := newStore(connect(say(text))).do("SET", "key", "value"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the store says %q: got %v, want %s", text, err, want)
		}
	}
}

func TestSettingsThatCannotBeRead(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"a", "b"}, {bad}, {bad + ".lost"}} {
		if err := run(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
