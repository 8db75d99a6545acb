package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/setpointd/setpoint/agent/driver"
)

// hub is the registry of images whose names have none.
const hub = "docker.io"

// refusal is why a task cannot run here; Start makes a *driver.RejectedError of it.
type refusal struct {
	code   string
	reason string
}

// Error is the reason.
func (r *refusal) Error() string { return r.reason }

// provide makes sure that the engine has the image, by pulling it if the policy says so.
func (d *Driver) provide(ctx context.Context, s settings) error {
	if s.Pull != pullAlways {
		_, err := d.engine.ImageInspect(ctx, s.Image)
		switch {
		case err == nil:
			return nil
		case cerrdefs.IsInvalidArgument(err):
			return &refusal{driver.RejectBadSpec, fmt.Sprintf("image %q: %v", s.Image, plain(err))}
		case !notFound(err):
			return fmt.Errorf("look for image %s: %w", s.Image, plain(err))
		case s.Pull == pullNever:
			return &refusal{driver.RejectNoImage, fmt.Sprintf("image %s is not here, and pull is %q; load it, or let it be pulled", s.Image, pullNever)}
		}
	}
	if err := d.pull(ctx, s.Image); err != nil {
		reason := fmt.Errorf("pull image %s: %w", s.Image, plain(err))
		if ctx.Err() == nil && hopeless(err) {
			return &refusal{driver.RejectNoImage, reason.Error()}
		}
		return reason
	}
	return nil
}

func (d *Driver) pull(ctx context.Context, image string) error {
	auth, err := d.auth(image)
	if err != nil {
		return err
	}
	progress, err := d.engine.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return err
	}
	return errors.Join(progress.Wait(ctx), progress.Close())
}

// hopeless reports whether a pull would be refused again: the registry answered, and has no such image for us. What came after the answer began tells it by its
// words only.
func hopeless(err error) bool {
	if notFound(err) || cerrdefs.IsInvalidArgument(err) || cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err) {
		return true
	}
	for _, words := range []string{
		"manifest unknown", "repository name not known", "no matching manifest", "pull access denied", "denied:", "unauthorized:", "no basic auth credentials",
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// auth returns what the engine shows the image's registry, or "" if nothing was configured for it.
func (d *Driver) auth(image string) (string, error) {
	host := registryOf(image)
	who, ok := d.opts.Registries[host]
	if !ok {
		return "", nil
	}
	password, err := os.ReadFile(who.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password for registry %s: %w", host, err)
	}
	return authconfig.Encode(registry.AuthConfig{Username: who.Username, Password: strings.TrimSpace(string(password)), ServerAddress: host})
}

// registryOf returns the registry in an image's name, by the rule that all engines have: what is before the first slash, if it looks like a host.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return hub
	}
	return host
}
