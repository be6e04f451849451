package httpget

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestURLsAreRead(t *testing.T) {
	for text, want := range map[string]struct{ host, base, address string }{
		"http://10.0.0.1/spore.efi":          {"10.0.0.1", "http://10.0.0.1/", "10.0.0.1:80"},
		"HTTP://10.0.0.1:8080/a/b/spore.efi": {"10.0.0.1:8080", "http://10.0.0.1:8080/a/b/", "10.0.0.1:8080"},
		"http://boot.example":                {"boot.example", "http://boot.example/", "boot.example:80"},
		"http://boot.example/a/":             {"boot.example", "http://boot.example/a/", "boot.example:80"},
		"http://boot.example/a?b=/c/d":       {"boot.example", "http://boot.example/", "boot.example:80"},
		"http://[fd00::1]:81/x":              {"[fd00::1]:81", "http://[fd00::1]:81/", "[fd00::1]:81"},
		"http://[fd00::1]/x":                 {"[fd00::1]", "http://[fd00::1]/", "[fd00::1]:80"},
	} {
		u, err := ParseURL(text)
		require.NoError(t, err, text)
		require.Equal(t, want.host, u.Host)
		require.Equal(t, want.base, u.Base().String())
		require.Equal(t, want.address, u.address())
		require.Equal(t, want.base+"root.squashfs", u.Base().File("root.squashfs").String())
	}
	for _, text := range []string{
		"", "spore.efi", "https://10.0.0.1/x", "tftp://10.0.0.1/x", "http://", "http:///x", "http://user@host/x", "http://host:0/x", "http://host:99999/x",
		"http://ho st/", "http://host/a b", "http://host/\r\nX: y", "http://host/\x7f", "http://[::1/x", "http://a?b", "http://host/a#b", "http://" + strings.Repeat("a", 2000),
		"http://ho$t/", "http://:80/x",
	} {
		_, err := ParseURL(text)
		require.Error(t, err, "%q", text)
	}
}

func client() Client {
	var d net.Dialer
	return Client{Dial: d.DialContext, Idle: 2 * time.Second}
}

func get(t *testing.T, url string, from int64) ([]byte, int64, error) {
	u, err := ParseURL(url)
	require.NoError(t, err)
	b, err := client().Get(context.Background(), u, from)
	if err != nil {
		return nil, 0, err
	}
	defer b.Close()
	data, err := io.ReadAll(b)
	return data, b.Size, err
}

func TestAFileIsFetchedFromAnyByteOn(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 50000)
	ranges := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(content))
	}))
	defer ranges.Close()
	whole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "500000")
		_, _ = w.Write(content)
	}))
	defer whole.Close()
	for name, url := range map[string]string{"with ranges": ranges.URL, "without": whole.URL} {
		t.Run(name, func(t *testing.T) {
			for _, from := range []int64{0, 1, 123457, 499999} {
				data, size, err := get(t, url+"/root.squashfs", from)
				require.NoError(t, err)
				require.Equal(t, int64(len(content)), size)
				require.True(t, bytes.Equal(content[from:], data))
			}
		})
	}
}

// answer is a server that says the same to everybody and hangs up.
func answer(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/x"
}

func TestAnswersThatAreNotTheFileAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		from       int64
		text, want string
	}{
		"not found":              {0, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the server answers 404 Not Found"},
		"a redirect":             {0, "HTTP/1.1 302 Found\r\nLocation: https://x/\r\n\r\n", "302 Found: https://x/; a redirect is not followed"},
		"chunks":                 {0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", `transfer coding "chunked"`},
		"an encoding":            {0, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", `encoded as "gzip"`},
		"no length":              {0, "HTTP/1.1 200 OK\r\n\r\n", "does not say how long it is"},
		"two lengths":            {0, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", `the length "2"`},
		"a negative length":      {0, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", `the length "-1"`},
		"a huge length":          {0, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "the length"},
		"another range":          {5, "HTTP/1.1 206 Partial\r\nContent-Range: bytes 4-9/10\r\n\r\n", "from byte 4, and from 5 was asked for"},
		"a range that ends":      {5, "HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-8/10\r\n\r\n", "the range"},
		"a range of other size":  {5, "HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 4\r\n\r\n", "the range"},
		"no range":               {5, "HTTP/1.1 206 Partial\r\nContent-Length: 4\r\n\r\n", "the range"},
		"a file that shrank":     {5, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "has 4 bytes now"},
		"no HTTP":                {0, "SSH-2.0-x\r\n", "is not HTTP/1"},
		"HTTP/2":                 {0, "HTTP/2 200\r\n\r\n", "is not HTTP/1"},
		"no header":              {0, "HTTP/1.1 200 OK\r\nx\r\n\r\n", `the header "x"`},
		"a head that is cut":     {0, "HTTP/1.1 200 OK\r\nContent-Le", "cut short"},
		"nothing":                {0, "", "cut short"},
		"a long line":            {0, "HTTP/1.1 200 " + strings.Repeat("x", 5000), "more than 4096 bytes"},
		"many headers":           {0, "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 100) + "\r\n", "more than 64 headers"},
		"a body that is cut":     {0, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", "unexpected EOF"},
		"a cut before the range": {6, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", "the server knows no ranges, and reading over"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := get(t, answer(t, c.text), c.from)
			require.ErrorContains(t, err, c.want)
		})
	}
	data, _, err := get(t, answer(t, "HTTP/1.0 200 OK\nContent-Length: 3\n\nabcdef"), 0)
	require.NoError(t, err)
	require.Equal(t, "abc", string(data), "what follows the announced length is not read")
}

func TestASilentServerIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	u, err := ParseURL("http://" + l.Addr().String() + "/x")
	require.NoError(t, err)
	c := client()
	c.Idle = 50 * time.Millisecond
	_, err = c.Get(context.Background(), u, 0)
	require.ErrorContains(t, err, "i/o timeout")
	require.ErrorContains(t, err, "GET http://127.0.0.1:", "it says what was asked of whom")

	c.Idle = time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = c.Get(ctx, u, 0)
	require.Error(t, err)
	require.Less(t, time.Since(start), 10*time.Second)
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"))
	f.Add([]byte("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 302 x\nLocation: \x00\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ReadAnswer(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, a.Status, 100)
		if a.Status == 200 || a.Status == 206 {
			require.GreaterOrEqual(t, a.Total, int64(0))
			require.LessOrEqual(t, a.First, a.Total)
		}
		for _, from := range []int64{0, 1, 1 << 40} {
			start, err := a.start(from)
			require.True(t, err != nil || start <= from && start >= 0 && start <= a.Total)
		}
		for _, c := range []byte(a.Reason + a.location) {
			require.True(t, c >= 0x20 && c <= 0x7e, "it is shown on a console")
		}
	})
}

func FuzzParseURL(f *testing.F) {
	f.Add("http://10.0.0.1:8080/a/spore.efi")
	f.Add("http://[fd00::1]/x?y")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseURL(text)
		if err != nil {
			return
		}
		again, err := ParseURL(u.String())
		require.NoError(t, err)
		require.Equal(t, u, again)
		require.True(t, strings.HasSuffix(u.Base().Path, "/"))
		require.NotContains(t, u.String(), "\n")
		_, _, err = net.SplitHostPort(u.address())
		require.NoError(t, err)
	})
}
