package client

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func read(text string) ([]string, error) { return reply(bufio.NewReader(strings.NewReader(text)), 0) }

func TestAnswersOfAStore(t *testing.T) {
	for text, want := range map[string][]string{
		"+OK\r\n": {"OK"}, ":-7\r\n": {"-7"}, "$4\r\na\r\nb\r\n": {"a\r\nb"}, "$0\r\n\r\n": {""}, "$-1\r\n": nil, "*0\r\n": nil,
		"*2\r\n$9\r\nmaxmemory\r\n$2\r\n64\r\n": {"maxmemory", "64"},
	} {
		got, err := read(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestAnswersThatAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"-WRONGPASS invalid\r\n": "WRONGPASS invalid", "": "EOF", "+OK": "EOF", "+OK\n": "is not RESP", "\r\n": "is not RESP", "%1\r\n": "is not RESP",
		"$x\r\n": "no length", "$-2\r\n": "no length", "$9999999\r\n": "no length", "*1\r\n*1\r\n+a\r\n": "no length", "$3\r\nab": "EOF",
		"$1\r\nabc": "does not end where it says", "*2\r\n+a\r\n-NOPERM\r\n": "NOPERM", "+" + strings.Repeat("x", 1<<16): "buffer full",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestALoginAtAStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		data := make([]byte, len("*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$2\r\nb \r\n"))
		_, _ = io.ReadFull(conn, data)
		got <- string(data)
		_, _ = io.WriteString(conn, "-WRONGPASS no\r\n")
	}()
	_, err = DialValkey(l.Addr().String(), "a", "b ")
	require.EqualError(t, err, "log in: WRONGPASS no")
	require.Equal(t, "*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$2\r\nb \r\n", <-got)
}

func FuzzReply(f *testing.F) {
	f.Add("*2\r\n$1\r\na\r\n:1\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(text)
		if err != nil {
			require.Nil(t, got)
		}
	})
}
