// Package plant reaches servers of the plant, which are not of the cluster: by TLS with authorities that a
// configuration names, with secrets of the node's bundle, and by HTTP without what the environment says of proxies.
package plant

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spore/storage/atomicfile"
)

const (
	// maxSecret bounds a file of a secret.
	maxSecret = 4 << 10
	// maxHeaders bounds the header of an answer, in bytes.
	maxHeaders = 64 << 10
	// idle is how long a connection is kept for the next request.
	idle = 30 * time.Second
)

// Secret reads a secret as it is now, without the end of its line.
func Secret(file string) (string, error) {
	data, err := atomicfile.ReadLimited(file, maxSecret)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", fmt.Errorf("read a secret: %s is empty", file)
	}
	return text, nil
}

// TLS has a server show a certificate of these authorities, as PEM, or of those of the system where there are none.
func TLS(ca string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return c, nil
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("the certificates of ca are malformed")
	}
	return c, nil
}

// HTTP is a client of one server. It follows no redirect, which would show what it sends to somebody else, and a
// request may take so long with its answer.
func HTTP(ca string, patience time.Duration) (*http.Client, error) {
	config, err := TLS(ca)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			TLSClientConfig: config, MaxResponseHeaderBytes: maxHeaders, IdleConnTimeout: idle, MaxConnsPerHost: 2,
			DisableCompression: true, TLSHandshakeTimeout: patience / 2, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
