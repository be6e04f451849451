// Package ready asks an API server whether it is ready (/readyz), as anybody may.
package ready

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"spore/services/kubernetes/vip"
)

// maxAnswer bounds what is read of an answer: why it is not ready.
const maxAnswer = 4 << 10

// Server asks the server at url, whose certificate is to be of one of the authorities (PEM) and for the name.
func Server(url string, authorities []byte, name string) (func(context.Context) error, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("the authority of the API servers has no certificate")
	}
	return ask(url, &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}), nil
}

// Plain asks without TLS.
func Plain(url string) func(context.Context) error { return ask(url, nil) }

// ask connects anew each time: one that hangs, or whose certificate was renewed, is to be seen.
func ask(address string, config *tls.Config) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, Proxy: nil}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return fmt.Errorf("internal error: %w", err)
		}
		res, err := client.Do(req)
		if err != nil {
			return failed(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // who wants to know why asks it
		return fmt.Errorf("it answers %s", res.Status)
	}
}

// failed is why there is no answer, without the ports of this one connection.
func failed(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return vip.ErrGone
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it does not answer")
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err
}
