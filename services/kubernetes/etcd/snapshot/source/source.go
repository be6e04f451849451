// Package source gets snapshots from a running etcd.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd is one member, as package keeper wants it.
type Etcd struct {
	// Connect makes a client of that member alone. It is called for each snapshot: the certificate may be another one an hour
	// later.
	Connect func() (*clientv3.Client, error)
	// Endpoint is the member's URL.
	Endpoint string
	// Within bounds one question.
	Within time.Duration
}

// Size returns the size of the database in bytes.
func (e Etcd) Size(ctx context.Context) (int64, error) {
	c, err := e.Connect()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, e.Within)
	defer cancel()
	s, err := c.Status(ctx, e.Endpoint)
	if err != nil {
		return 0, fmt.Errorf("ask this master's etcd for the size of its database: %w", err)
	}
	return s.DbSize, nil
}

// Snapshot returns the database with its hash at the end. A member alone may be behind the others; so a key is read first,
// linearized: the answer comes when this member has applied all that any has acknowledged.
func (e Etcd) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	c, err := e.Connect()
	if err != nil {
		return nil, err
	}
	if err := Quorum(ctx, c, e.Within); err != nil {
		c.Close()
		return nil, fmt.Errorf("this master's etcd is not up to date, or has no quorum: %w", err)
	}
	s, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("ask this master's etcd for a snapshot: %w", err)
	}
	return both{s.Snapshot, c}, nil
}

type both struct {
	io.ReadCloser
	client *clientv3.Client
}

func (b both) Close() error { return errors.Join(b.ReadCloser.Close(), b.client.Close()) }

// Quorum returns nil when a quorum has answered by this connection.
func Quorum(ctx context.Context, c *clientv3.Client, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := c.Get(ctx, "/spore/none", clientv3.WithKeysOnly())
	return err
}
