package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/internal/nodecert"
)

// authorityName is the base name of the authority's files in the directory of certificates.
const (
	authorityName = "ca"
	day           = 24 * time.Hour
)

func newCert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Create certificates for the nodes of a cluster.",
		Long: `Create the certificates by which the nodes of a cluster authenticate each other:
first an authority, then a certificate for each node, with the node's name as the
URI greenroom://cluster/node. A node needs the authority's certificate, its own
certificate and its own key. Keep the authority's key where no node runs: anyone
who has it can act as any node.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCertAuthority(), newCertNode(), newCertShow())
	for _, sub := range cmd.Commands() {
		sub.Args = usageArgs(cobra.NoArgs)
	}
	return cmd
}

func newCertAuthority() *cobra.Command {
	var dir, cluster string
	var days int
	cmd := &cobra.Command{
		Use:     "authority",
		Short:   "Create the authority of a cluster.",
		Long:    `Create the authority of a cluster: its certificate, ca.pem, and its key, ca-key.pem.`,
		Example: `  greenroom cert authority --cluster shop --dir certs`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster == "" {
				return usagef("--cluster must name the cluster")
			}
			if err := checkDays(days); err != nil {
				return err
			}
			_, pair, err := nodecert.NewAuthority(cluster, time.Now(), time.Duration(days)*day)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			return writePair(cmd, dir, authorityName, pair, false)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory of the certificates")
	cmd.Flags().StringVar(&cluster, "cluster", "", "name of the cluster: letters, digits and . - _")
	cmd.Flags().IntVar(&days, "days", 3650, "days until the certificate expires")
	return cmd
}

func newCertNode() *cobra.Command {
	var dir, name string
	var days int
	var replace bool
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Create the certificate of a node.",
		Long: `Create the certificate of a node, with a new key: NAME.pem and NAME-key.pem. The
authority must be in the same directory.`,
		Example: `  greenroom cert node --name orders-1 --dir certs
  greenroom cert node --name orders-1 --dir certs --replace   # before the old one expires`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch name {
			case "":
				return usagef("--name must name the node")
			case authorityName:
				return usagef("--name must not be %s, whose files are the authority's", authorityName)
			}
			if err := checkDays(days); err != nil {
				return err
			}
			authority, err := readAuthority(dir)
			if err != nil {
				return err
			}
			pair, err := authority.Issue(name, time.Now(), time.Duration(days)*day)
			if err != nil {
				return err
			}
			return writePair(cmd, dir, name, pair, replace)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "certs", "directory of the certificates")
	cmd.Flags().StringVar(&name, "name", "", "name of the node: letters, digits and . - _")
	cmd.Flags().IntVar(&days, "days", 365, "days until the certificate expires")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the files of an earlier certificate")
	return cmd
}

func newCertShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the node of a certificate, and when it expires.",
		Example: `  greenroom cert show --file certs/orders-1.pem`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--file must name a certificate")
			}
			text, err := os.ReadFile(file) //nolint:gosec // the file that the user names
			if err != nil {
				return err
			}
			c, err := nodecert.ReadCertificate(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, uri := range c.URIs {
				fmt.Fprintf(cmd.OutOrStdout(), "%s, valid from %s to %s\n", uri, moment(c.NotBefore.UnixMilli()), moment(c.NotAfter.UnixMilli()))
			}
			if len(c.URIs) == 0 {
				return fmt.Errorf("%s is of no node: it has no URI", file)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "certificate in PEM")
	return cmd
}

// maxDays bounds the validity of a certificate.
const maxDays = 36500

func checkDays(days int) error {
	if days < 1 || days > maxDays {
		return usagef("--days must be an integer from 1 to %d, not %d", maxDays, days)
	}
	return nil
}

// pairFiles returns the names of the files with a certificate and its key.
func pairFiles(dir, name string) (certificate, key string) {
	return filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
}

func readAuthority(dir string) (*nodecert.Authority, error) {
	certificate, key := pairFiles(dir, authorityName)
	var pair nodecert.Pair
	var err error
	if pair.Certificate, err = os.ReadFile(certificate); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: make it with greenroom cert authority", certificate)
	} else if err != nil {
		return nil, err
	}
	if pair.Key, err = os.ReadFile(key); err != nil {
		return nil, err
	}
	authority, err := nodecert.ReadAuthority(pair)
	if err != nil {
		return nil, fmt.Errorf("read the authority in %s: %w", dir, err)
	}
	return authority, nil
}

// writePair writes a certificate and its key, which is readable only by the user, and prints the
// names of the files. It replaces existing files only if replace is set.
func writePair(cmd *cobra.Command, dir, name string, pair nodecert.Pair, replace bool) error {
	certificate, key := pairFiles(dir, name)
	files := []struct {
		name string
		text []byte
		mode fs.FileMode
	}{{key, pair.Key, 0o600}, {certificate, pair.Certificate, 0o644}}
	for _, f := range files {
		if _, err := os.Lstat(f.name); !replace && err == nil {
			return fmt.Errorf("%s: %w", f.name, fs.ErrExist)
		}
	}
	for _, f := range files { // a node that starts meanwhile finds either the old file or the new one
		next := f.name + ".new"
		if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := writeNew(next, f.text, f.mode); err != nil {
			return err
		}
		if err := os.Rename(next, f.name); err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", certificate, key)
	return nil
}

// writeNew creates a file, which must not exist.
func writeNew(name string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // in the directory that the user names
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
