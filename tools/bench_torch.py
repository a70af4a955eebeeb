# SPDX-License-Identifier: Apache-2.0
"""The models of bench_models.py in PyTorch, and the time of their steps."""
from bench_ops import replayed

# MobileNetV2's stages: how many times as wide the inner convolution is, channels, blocks, the first one's stride.
INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def torch_models(torch):
    """The same models in PyTorch: for each name a function that gives the module and its inputs."""
    nn, f = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        """x + the branch of x, or the projected x."""

        def __init__(self, branch, skip=None, after=None):
            super().__init__()
            self.branch, self.skip, self.after = branch, skip or nn.Identity(), after or nn.Identity()

        def forward(self, x):
            return self.after(self.skip(x) + self.branch(x))

    class Turned(nn.Module):
        """A module that sees channels last."""

        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Scale(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * self.gain

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(c, 2))
            return self.out(f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))

    class Grouped(nn.Module):
        """Causal attention with fewer heads of keys and values, and rotated positions."""

        def __init__(self, width, heads, groups, time):
            super().__init__()
            size = width // heads
            self.size, self.qkv = size, nn.ModuleList(nn.Linear(width, n * size, False) for n in (heads, groups, groups))
            self.out = nn.Linear(width, width, bias=False)
            angles = torch.outer(torch.arange(time), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def turned(self, z):
            a, b = z.chunk(2, -1)
            return (z * self.cos + torch.cat([-b, a], -1) * self.sin).to(z.dtype)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (linear(x).view(b, t, -1, self.size).transpose(1, 2) for linear in self.qkv)
            y = f.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    class Gated(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x):
            return self.down(f.silu(self.gate(x)) * self.up(x))

    class Lambda(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def classes(*layers):
        return nn.Sequential(*layers), f.cross_entropy

    def conv_norm(inputs, outputs, kernel, stride=1):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)

    def torch_resnet18():
        layers, width = [*conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
            branch = nn.Sequential(
                *conv_norm(width, channels, 3, stride), nn.ReLU(), *conv_norm(channels, channels, 3)
            )
            skip = nn.Sequential(*conv_norm(width, channels, 1, 2)) if stride == 2 else None
            layers.append(Residual(branch, skip, nn.ReLU()))
            width = channels
        return classes(*layers, Lambda(lambda x: x.mean((2, 3))), nn.Linear(512, 1000))

    class Tokens(nn.Module):
        """A first token, and positions."""

        def __init__(self, width):
            super().__init__()
            self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.places = nn.Parameter(torch.randn(197, width) * 0.02)

        def forward(self, x):
            x = x.flatten(2).transpose(1, 2)
            return torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.places

    def torch_vit(width=384):
        layers = [nn.Conv2d(3, width, 16, 16), Tokens(width)]
        for _ in range(12):
            mlp = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            layers.append(Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, 6))))
            layers.append(Residual(nn.Sequential(nn.LayerNorm(width), *mlp)))
        return classes(*layers, nn.LayerNorm(width), Lambda(lambda x: x[:, 0]), nn.Linear(width, 1000))

    def torch_convnext():
        layers, before = [nn.Conv2d(3, 96, 4, 4), Turned(nn.LayerNorm(96))], 96
        for stage, (width, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
            if stage:
                layers += [Turned(nn.LayerNorm(before)), nn.Conv2d(before, width, 2, 2)]
            for _ in range(depth):
                mlp = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Scale(width)
                depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
                layers.append(
                    Residual(nn.Sequential(depthwise, Turned(nn.Sequential(nn.LayerNorm(width), *mlp))))
                )
            before = width
        return classes(*layers, Lambda(lambda x: x.mean((2, 3))), nn.LayerNorm(768), nn.Linear(768, 1000))

    def block(inputs, outputs):
        branch = [nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 1, 1)]
        branch += [nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, 1, 1)]
        return Residual(nn.Sequential(*branch), nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.down, self.up = nn.Conv2d(3, 64, 3, 1, 1), nn.ModuleList(), nn.ModuleList()
            before = 64
            for width in (64, 128, 256):
                self.down.append(nn.Sequential(block(before, width), block(width, width)))
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                before = width
            self.middle = nn.Sequential(block(256, 256), block(256, 256))
            for width in (256, 128, 64):
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(before, width, 3, 1, 1)))
                self.up.append(nn.Sequential(block(2 * width, width), block(width, width)))
                before = width
            self.last = nn.Sequential(nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, 1, 1))

        def forward(self, x):
            h, skips = self.first(x), []
            for blocks, smaller in zip(self.down[::2], self.down[1::2]):
                skips.append(blocks(h))
                h = smaller(skips[-1])
            h = self.middle(h)
            for larger, blocks in zip(self.up[::2], self.up[1::2]):
                h = blocks(torch.cat([larger(h), skips.pop()], 1))
            return self.last(h)

    def tokens_loss(logits, targets):
        return f.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def torch_llama(width=768):
        layers = [nn.Embedding(32000, width)]
        for _ in range(12):
            layers.append(Residual(nn.Sequential(nn.RMSNorm(width), Grouped(width, 12, 4, 1024))))
            layers.append(Residual(nn.Sequential(nn.RMSNorm(width), Gated(width, 2048))))
        return nn.Sequential(*layers, nn.RMSNorm(width), nn.Linear(width, 32000, bias=False)), tokens_loss

    def torch_lstm(width=256):
        cells = nn.LSTM(width, width, batch_first=True)
        return nn.Sequential(nn.Embedding(65, width), cells, Lambda(lambda x: x[0]), nn.Linear(width, 65)), tokens_loss

    def torch_gru(width=256):
        cells = nn.GRU(width, width, batch_first=True)
        return nn.Sequential(nn.Embedding(65, width), cells, Lambda(lambda x: x[0]), nn.Linear(width, 65)), tokens_loss

    def torch_mobilenet():
        layers, before = [*conv_norm(3, 32, 3, 2), nn.ReLU6()], 32
        for times, width, depth, first in INVERTED:
            for stride in [first] + [1] * (depth - 1):
                inner = before * times
                branch = [] if times == 1 else [*conv_norm(before, inner, 1), nn.ReLU6()]
                branch += [nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner)]
                branch = nn.Sequential(*branch, nn.ReLU6(), *conv_norm(inner, width, 1))
                layers.append(Residual(branch) if stride == 1 and before == width else branch)
                before = width
        layers += [*conv_norm(before, 1280, 1), nn.ReLU6(), Lambda(lambda x: x.mean((2, 3)))]
        return classes(*layers, nn.Linear(1280, 1000))

    def torch_dcgan():
        layers, before = [], 3
        for width in (64, 128, 256, 512):
            layers.append(nn.Conv2d(before, width, 4, 2, 1, bias=False))
            layers += ([nn.BatchNorm2d(width)] if width > 64 else []) + [nn.LeakyReLU(0.2)]
            before = width
        layers += [nn.Conv2d(512, 100, 4, bias=False), nn.ConvTranspose2d(100, 512, 4, bias=False)]
        layers += [nn.BatchNorm2d(512), nn.ReLU()]
        for width in (256, 128, 64):
            layers += [nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()), f.mse_loss

    class Masked(nn.Module):
        """Attention over all tokens, with a mask that is added to the scores and dropout of their weights."""

        def __init__(self, width, heads, batch, time):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.register_buffer("mask", torch.zeros(batch, 1, 1, time))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(c, 2))
            mask = self.mask.to(q.dtype).expand(b, self.heads, t, t)
            y = f.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.1)
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    class Places(nn.Module):
        def __init__(self, time, width):
            super().__init__()
            self.places = nn.Parameter(torch.randn(time, width) * 0.02)

        def forward(self, x):
            return x + self.places

    def torch_bert(width=768):
        layers = [nn.Embedding(30522, width), Places(512, width), nn.LayerNorm(width), nn.Dropout(0.1)]
        for _ in range(12):
            attention = nn.Sequential(Masked(width, 12, 16, 512), nn.Dropout(0.1))
            mlp = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            layers += [Residual(attention, after=nn.LayerNorm(width))]
            layers += [Residual(nn.Sequential(*mlp), after=nn.LayerNorm(width))]
        layers += [nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 30522)]
        return nn.Sequential(*layers), tokens_loss

    def images(batch, size=224):
        return torch.randn(batch, 3, size, size, device="cuda")

    def ids(count, *shape):
        return torch.randint(count, shape, device="cuda")

    return {
        "resnet18, 32 of 224x224": (torch_resnet18, lambda: (images(32), ids(1000, 32))),
        "vit-s, 64 of 224x224": (torch_vit, lambda: (images(64), ids(1000, 64))),
        "convnext-t, 32 of 224x224": (torch_convnext, lambda: (images(32), ids(1000, 32))),
        "unet, 32 of 64x64": (lambda: (UNet(), f.mse_loss), lambda: (images(32, 64), images(32, 64))),
        "llama 110M, 8 x 1024": (torch_llama, lambda: (ids(32000, 8, 1024), ids(32000, 8, 1024))),
        "lstm 256, 64 x 64": (torch_lstm, lambda: (ids(65, 64, 64), ids(65, 64, 64))),
        "gru 256, 64 x 64": (torch_gru, lambda: (ids(65, 64, 64), ids(65, 64, 64))),
        "mobilenet v2, 32 of 224x224": (torch_mobilenet, lambda: (images(32), ids(1000, 32))),
        "dcgan, 128 of 64x64": (torch_dcgan, lambda: (images(128, 64), images(128, 64))),
        "bert base, 16 x 512": (torch_bert, lambda: (ids(30522, 16, 512), ids(30522, 16, 512))),
    }


def theirs(torch, name, narrow):
    """Milliseconds of one replay of PyTorch's step, the lowest mean of three series, and the megabytes it allocated."""
    make, draw = torch_models(torch)[name]
    model, loss_of = make()
    model, (x, y) = model.to("cuda"), draw()
    if narrow and name.startswith(("resnet", "unet", "mobilenet", "dcgan")):
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True, capturable=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
            result = model(x)
        loss_of(result.float(), y).backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    milliseconds = replayed(torch, step)
    peak = torch.cuda.max_memory_allocated() / 1e6
    torch.cuda.empty_cache()
    return milliseconds, peak
