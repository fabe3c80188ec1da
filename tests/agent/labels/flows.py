"""Flows with known truth: small functions whose results were made from known bytes of their arguments.

    python flows.py AGENT_DIR [FOLDER_OF_ACCELERATORS]

runs all of them with labels and prints, as JSON, each flow's result and the labels that were found and missed. The arguments `a`
and `b` of each function are two messages of different sources (A and B below). A truth is a list of pairs: this part of the
result was made from that part of a message. If both parts have one length, they are the same bytes in the same order. A number
has no parts: its truth has `None` in their place. `C` is a text that has no labels.
"""

import json
import sys

A = b"PUT granary/shelf-7 rye 4096 5 \xc3\xa9t\xc3\xa9\n"
B = b'{"key": "oats", "count": 70000, "epoch": 5, "tags": ["raw", "dry"], "deep": {"id": "x-1"}}'
C = "rye"

FLOWS = {
    # --- parts of bytes and texts
    "slice": ("return a[4:11]", [("granary", "A:granary")]),
    "slice from the end": ("return a[:-1][-5:]", [(0, 5, "A:\xe9t\xe9")]),
    "slice of a slice": ("return a[4:19][8:]", [("shelf-7", "A:shelf-7")]),
    "decoded slice": ("return a[4:11].decode()", [("granary", "A:granary")]),
    "item of bytes": ("return a[18]", [(None, "A:7")]),
    "character": ("return a.decode()[18]", [("7", "A:7")]),
    "step": ("return a[4:11:2]", [(0, 1, "A:g"), (1, 2, "A@6:7"), (2, 3, "A@8:9"), (3, 4, "A@10:11")]),
    "split": ("return a.split()[2]", [("rye", "A:rye")]),
    "split at a byte": ("return a.split(b' ')[1].split(b'/')[1]", [("shelf-7", "A:shelf-7")]),
    "split once": ("return a.split(b' ', 1)[0]", [("PUT", "A:PUT")]),
    "split from the right": ("return a[4:19].rsplit(b'-', 1)[1]", [("7", "A:7")]),
    "partition": ("return a.decode().partition(' ')[2][:7]", [("granary", "A:granary")]),
    "separator of a partition": ("return a.partition(b'/shelf-')[1] + b'/shelf-'", [(0, 7, "A:/shelf-")]),
    "lines": ("return (a + b).splitlines()[1][:5]", [(0, 5, "B@0:5")]),
    "strip": ("return a[3:12].strip(b' /')", [("granary", "A:granary")]),
    "left strip": ("return a[3:11].lstrip()", [("granary", "A:granary")]),
    "prefix": ("return a.decode()[4:19].removeprefix('granary/') if hasattr('', 'removeprefix') else a[12:19].decode()",
               [("shelf-7", "A:shelf-7")]),
    "unpacked bytes": ("x, y = a[12:14]\nreturn y", [(None, "A@13:14")]),
    "loop over bytes": ("for x in a[18:19]:\n    return x", [(None, "A:7")]),
    "loop over a text": ("return [x for x in a[4:6].decode()][1]", [("r", "A@5:6")]),
    "list of bytes": ("return list(a[18:20])[0]", [(None, "A:7")]),
    "non-ASCII text": ("return a.decode()[31:34]", [(0, 1, "A@31:33"), (1, 2, "A@33:34"), (2, 3, "A@34:36")]),
    # --- texts that are put together
    "concatenation": ("return a[4:11] + b'!' + b[9:13]", [("granary", "A:granary"), ("oats", "B:oats")]),
    "in place": ("x = 'k='\nx += a[20:23].decode()\nreturn x", [("rye", "A:rye")]),
    "repetition": ("return a[20:23] * 2", [(0, 3, "A:rye"), (3, 6, "A:rye")]),
    "join": ("return b','.join([a[20:23], b'x', b[9:13]])", [("rye", "A:rye"), ("oats", "B:oats")]),
    "join of a generator": ("return '/'.join(x.decode() for x in (a[20:23], b[9:13]))", [("rye", "A:rye"), ("oats", "B:oats")]),
    "join with a labelled separator": ("return a[3:4].join([b'1', b'2', b'3'])", [(1, 2, "A@3:4"), (3, 4, "A@3:4")]),
    "percent": ("return 'v=%s;' % a[20:23].decode()", [("rye", "A:rye")]),
    "percent with a tuple": (
        "return '%s=%d %s' % (C, int(a[24:28]), b[9:13].decode())",
        [("4096", "A:4096", "all"), ("oats", "B:oats")],
    ),
    "percent with names": ("return '%(k)s:%(v)05d' % {'k': 'k', 'v': int(a[24:28])}", [("04096", "A:4096")]),
    "percent of bytes": ("return b'%b %d' % (a[20:23], 7)", [("rye", "A:rye")]),
    "format": ("return '{}-{:>6}'.format(C, a[20:23].decode())", [(7, 10, "A:rye")]),
    "format by name": ("return '{x}{y!r}'.format(x=C, y=b[9:13].decode())", [("oats", "B:oats")]),
    "f-string": ("x = a[20:23].decode()\nreturn f'{C}:{x}:{int(a[24:28]):x}'", [(4, 7, "A:rye"), ("1000", "A:4096", "all")]),
    "f-string with a method": ("return f'<{a.decode().split()[2].upper()}>'", [("RYE", "A:rye")]),
    "f-string of an object": ("return f'{[a[20:23]]!r}'", [("[b'rye']", "A:rye")]),
    "replace": ("return a[4:19].replace(b'/', b'::')", [("granary", "A:granary"), ("shelf-7", "A:shelf-7")]),
    "replace by": ("return 'x=?'.replace('?', a[20:23].decode())", [("rye", "A:rye")]),
    "upper": ("return a[4:11].decode().upper()", [("GRANARY", "A:granary")]),
    "padded": ("return a[20:23].decode().rjust(6) + '|'", [("rye", "A:rye")]),
    "zeros in front": ("return a[29:30].decode().zfill(3)", [("5", "A:5")]),
    "encoded text": ("return ('\\xe9' + a[20:23].decode()).encode()", [("rye", "A:rye")]),
    "latin-1": ("return a[20:23].decode('latin-1')", [("rye", "A:rye")]),
    "str of bytes": ("return str(a[20:23], 'utf-8')", [("rye", "A:rye")]),
    "path": ("import os\nreturn os.path.join('/data', a[20:23].decode(), 'x')", [("rye", "A:rye")]),
    "base of a path": ("import os\nreturn os.path.basename(a[4:19].decode())", [("shelf-7", "A:shelf-7")]),
    "regular expression": (
        "import re\nreturn re.match(r'(\\w+) (\\S+)', a.decode()).group(2)",
        [("granary/shelf-7", "A:granary/shelf-7")],
    ),
    "groups": ("import re\nreturn re.match(rb'(\\w+) (\\S+)', a).groups()[0]", [("PUT", "A:PUT")]),
    "item of a match": ("import re\nm = re.search('shelf-(.)', a.decode())\nreturn m[1]", [("7", "A:7")]),
    "all matches": ("import re\nreturn re.findall(rb'[a-z]+', a)[2]", [("rye", "A:rye")]),
    "quoted": ("from urllib.parse import quote\nreturn quote(a[20:23].decode() + '/ ')", [("rye/%20", "A:rye")]),
    # --- numbers
    "int": ("return int(a[24:28])", [(None, "A:4096")]),
    "small int": ("return int(a[29:30])", [(None, "A:5")]),
    "sum": ("return int(a[24:28]) + 1", [(None, "A:4096")]),
    "sum of both": ("return int(a[29:30]) + int(b[25:30])", [(None, "A:5"), (None, "B:70000")]),
    "shift": ("return (int(a[24:28]) << 4) >> 8", [(None, "A:4096")]),
    "in place on an item": ("d = {'n': 0}\nd['n'] += int(a[29:30])\nreturn d['n']", [(None, "A:5")]),
    "negative": ("return -int(a[29:30])", [(None, "A:5")]),
    "text of a number": ("return 'n' + str(int(a[29:30]))", [("5", "A:5")]),
    "hexadecimal": ("return hex(int(a[24:28]))", [("0x1000", "A:4096")]),
    "hex of bytes": ("return a[20:23].hex()", [("727965", "A:rye")]),
    "from hex": ("return bytes.fromhex('00' + a[24:28].decode())", [(1, 3, "A:4096")]),
    "to bytes": ("return int(a[29:30]).to_bytes(2, 'big')", [("\0\x05", "A:5")]),
    "from bytes": ("return int.from_bytes(a[4:6], 'big')", [(None, "A:gr")]),
    "ord and chr": ("return chr(ord(a[20:21].decode()) + 1)", [("s", "A@20:21")]),
    "max": ("return max(3, int(a[29:30]))", [(None, "A:5")]),
    "sum of a list": ("return sum([1, int(a[29:30])])", [(None, "A:5")]),
    "map": ("return list(map(int, a[24:30].split()))[1]", [(None, "A:5")]),
    "divmod": ("return divmod(int(a[24:28]), 10)[1]", [(None, "A:4096")]),
    "float": ("return float(a[24:28]) / 2", [(None, "A:4096")]),
    # --- containers and objects
    "dictionary": ("d = {}\nd['k'] = a[20:23]\nreturn d.get('k')", [("rye", "A:rye")]),
    "key of a dictionary": ("d = {a[20:23].decode(): 1}\nreturn list(d)[0]", [("rye", "A:rye")]),
    "attribute": ("class X: pass\nx = X()\nx.v = int(a[29:30])\nreturn x.v", [(None, "A:5")]),
    "tuple": ("k, v = a.split()[2], 1\nreturn k", [("rye", "A:rye")]),
    "named tuple": ("from collections import namedtuple\nreturn namedtuple('T', 'k v')(a[20:23], 1).k", [("rye", "A:rye")]),
    "sorted": ("return sorted([b'z', a[20:23]])[0]", [("rye", "A:rye")]),
    "queue": ("from queue import SimpleQueue\nq = SimpleQueue()\nq.put(a[20:23])\nreturn q.get()", [("rye", "A:rye")]),
    "deque": ("from collections import deque\nq = deque([a[20:23]], maxlen=4)\nreturn q.popleft()", [("rye", "A:rye")]),
    "generator": ("def g():\n    yield a[20:23]\nreturn next(g())", [("rye", "A:rye")]),
    "lambda": ("return (lambda x: x[:3])(a[20:])", [("rye", "A:rye")]),
    "default": ("return a[20:23] or b'none'", [("rye", "A:rye")]),
    "deep copy": ("import copy\nreturn copy.deepcopy({'k': [a[20:23]]})['k'][0]", [("rye", "A:rye")]),
    # --- buffers
    "bytearray": ("x = bytearray(b'..')\nx += a[20:23]\nreturn bytes(x)", [("rye", "A:rye")]),
    "extended bytearray": ("x = bytearray(b'..')\nx.extend(a[20:23])\nx.extend(b[9:13])\nreturn bytes(x)",
                           [("rye", "A:rye"), ("oats", "B:oats")]),
    "framing": ("x = bytearray(a)\ndel x[:4]\ny = bytes(x[:7])\ndel x[:8]\nreturn y + bytes(x[:7])",
                [("granary", "A:granary"), ("shelf-7", "A:shelf-7")]),
    "item of a bytearray": ("x = bytearray(2)\nx[1] = a[18]\nreturn bytes(x)", [(1, 2, "A:7")]),
    "part of a bytearray": ("x = bytearray(5)\nx[1:4] = a[20:23]\nreturn bytes(x)", [(1, 4, "A:rye")]),
    "memoryview": ("return bytes(memoryview(a)[20:23])", [("rye", "A:rye")]),
    "BytesIO": ("import io\nx = io.BytesIO()\nx.write(b'..')\nx.write(a[20:23])\nreturn x.getvalue()", [("rye", "A:rye")]),
    "read from BytesIO": ("import io\nx = io.BytesIO(a)\nx.read(4)\nreturn x.read(7)", [("granary", "A:granary")]),
    "lines of BytesIO": ("import io\nfor x in io.BytesIO(a):\n    return x[:3]", [("PUT", "A:PUT")]),
    "StringIO": ("import io\nx = io.StringIO()\nx.write(a[20:23].decode())\nreturn x.getvalue()", [("rye", "A:rye")]),
    # --- formats
    "unpack": ("import struct\nreturn struct.unpack('>HB3s', a[4:10])[2]", [("nar", "A@7:10")]),
    "unpacked number": ("import struct\nreturn struct.unpack('>BxH', a[4:8])[1]", [(None, "A@6:8")]),
    "unpack at an offset": ("import struct\nreturn struct.unpack_from('<I', a, 4)[0]", [(None, "A@4:8")]),
    "pack": ("import struct\nreturn struct.pack('>IB3s', 1, int(a[29:30]), a[20:23])", [(4, 5, "A:5"), ("rye", "A:rye")]),
    "struct object": ("import struct\ns = struct.Struct('>HH')\nreturn s.pack(7, s.unpack(a[4:8])[1])", [(2, 4, "A@6:8", "all")]),
    "pack with alignment": ("import struct\nreturn struct.pack('bi', 1, int(a[29:30]))", [(4, 8, "A:5")]),
    "pack into": (
        "import struct\nx = bytearray(6)\nstruct.pack_into('>H', x, 2, int(a[24:28]))\nreturn bytes(x)",
        [(2, 4, "A:4096")],
    ),
    "JSON text": ("import json\nreturn json.loads(b)['key']", [("oats", "B:oats")]),
    "JSON number": ("import json\nreturn json.loads(b)['count']", [(None, "B:70000")]),
    "small JSON number": ("import json\nreturn json.loads(b)['epoch']", [(None, "B@41:42")]),
    "JSON list": ("import json\nreturn json.loads(b.decode())['tags'][1]", [("dry", "B:dry")]),
    "deep JSON": ("import json\nreturn json.loads(b)['deep']['id']", [("x-1", "B:x-1")]),
    "JSON document": ("import json\nreturn json.dumps({'k': a[20:23].decode(), 'z': 'rye', 'n': int(a[29:30])})",
                      [(7, 10, "A:rye"), (len('{"k": "rye", "z": "rye", "n": '), len('{"k": "rye", "z": "rye", "n": 5'), "A:5")]),
    "sorted JSON": ("import json\nreturn json.dumps({'z': a[20:23].decode(), 'b': 1}, sort_keys=True, separators=(',', ':'))",
                    [("rye", "A:rye")]),
    "JSON with escapes": ("import json\nreturn json.dumps([a[:-1].decode()[31:34]])", [("\\u00e9t\\u00e9", "A:\xe9t\xe9")]),
    "JSON there and back": (
        "import json\nreturn json.loads(json.dumps({'x': [a[20:23].decode(), 1]}))['x'][0]",
        [("rye", "A:rye")],
    ),
    "JSON encoder": ("import json\nreturn json.JSONEncoder().encode([a[20:23].decode()])", [("rye", "A:rye")]),
    "pickle there and back": (
        "import pickle\nreturn pickle.loads(pickle.dumps({'k': a[20:23], 'n': 5}))['k']",
        [("rye", "A:rye")],
    ),
    "pickled bytes": (
        "import pickle\nx = pickle.dumps([b'other', a[20:23]])\nreturn x[x.index(b'rye'):][:3]",
        [("rye", "A:rye")],
    ),
    "small number in a pickle": ("import pickle\nreturn pickle.loads(pickle.dumps((1, int(a[29:30]))))[1]", [(None, "A:5")]),
    "MessagePack": (
        "import msgpack\nreturn msgpack.unpackb(msgpack.packb({'k': a[20:23].decode(), 'n': 5}))['k']",
        [("rye", "A:rye")],
    ),
    "compressed": ("import zlib\nreturn zlib.decompress(zlib.compress(a[20:23]))", [("rye", "A:rye", "all")]),
    "base64": ("import base64\nreturn base64.b64encode(a[20:23])", [("cnll", "A:rye")]),
    "base64 there and back": ("import base64\nreturn base64.b64decode(base64.b64encode(a[20:23]))", [("rye", "A:rye", "all")]),
    "checksum": ("import zlib\nreturn zlib.crc32(a[20:23])", [(None, "A:rye")]),
    "hash": ("import hashlib\nreturn hashlib.sha256(a[20:23]).hexdigest()[:2]", [(0, 2, "A:rye")]),
    "updated hash": ("import hashlib\nh = hashlib.sha256()\nh.update(a[20:23])\nreturn h.hexdigest()[:2]", [(0, 2, "A:rye")]),
    "literal": ("import ast\nreturn ast.literal_eval(a[24:28].decode())", [(None, "A:4096")]),
    # --- like in programs
    "frame": ("import struct, json\nf = struct.pack('>I', len(b)) + b\nn = struct.unpack('>I', f[:4])[0]\n"
              "return json.loads(f[4:4 + n])['key']", [("oats", "B:oats")]),
    "epoch of a transaction id": ("import struct\nx = struct.pack('>Q', int(a[29:30]) << 32 | 17)\n"
                                  "return str(struct.unpack('>Q', x)[0] >> 32)", [("5", "A:5")]),
    "record": ("import json, zlib\np = json.dumps({'v': b[9:13].decode()}).encode()\nreturn b'%08x ' % zlib.crc32(p) + p",
               [("oats", "B:oats"), (0, 8, "B:oats")]),
    "two messages in one buffer": ("x = a[20:23] + b[9:13]\nreturn x[3:]", [("oats", "B:oats")]),
    # --- beyond the common ways
    "text of an object": (
        "class X:\n    def __init__(self):\n        self.x, self.y = a[20:23].decode(), b.decode()\n"
        "    def __str__(self):\n        return '<' + self.x + '>'\nreturn f'{X()}' + str(X())",
        [(1, 4, "A:rye"), (6, 9, "A:rye")],
    ),
    "percent of an object": (
        "class X:\n    def __str__(self):\n        return '<' + a[20:23].decode() + '>'\nreturn '%s' % X()",
        [("rye", "A:rye")],
    ),
    "number in base 16": ("return int(a[24:28], 16)", [(None, "A:4096")]),
    "translated": ("return a[20:23].translate(bytes(range(256)))", [("rye", "A:rye")]),
    "format of an item": ("return '{0[k]}!'.format({'k': a[20:23].decode()})", [("rye", "A:rye")]),
    "format with a nested width": ("return f'{a[20:23].decode():>{len(a) - 30}}'", [("rye", "A:rye")]),
    "object in a pickle": ("import pickle, types\nx = types.SimpleNamespace(v=a[20:23])\nreturn pickle.loads(pickle.dumps(x)).v",
                           [("rye", "A:rye")]),
    "JSON from a stream": ("import json, io\nreturn json.load(io.StringIO(b.decode()))['key']", [("oats", "B:oats")]),
    "JSON to a stream": (
        "import json, io\nx = io.StringIO()\njson.dump([a[20:23].decode()], x)\nreturn x.getvalue()",
        [("rye", "A:rye")],
    ),
    "JSON with a hook": ("import json\nreturn json.loads(b, object_hook=dict)['key']", [("oats", "B:oats")]),
    "CSV": ("import csv\nreturn next(csv.reader([a[20:28].decode().replace(' ', ',')]))[0]", [("rye", "A:rye")]),
    "decimal": ("import decimal\nreturn str(decimal.Decimal(a[24:28].decode()))", [("4096", "A:4096", "all")]),
    "array": ("import array\nreturn array.array('B', a[20:23]).tobytes()", [("rye", "A:rye")]),
    "template": ("import string\nreturn string.Template('v=$x').substitute(x=a[20:23].decode())", [("rye", "A:rye")]),
    "pathlib": ("import pathlib\nreturn str(pathlib.PurePosixPath('/data') / a[20:23].decode())", [("rye", "A:rye")]),
    "partial": ("import functools\nreturn functools.partial(int, a[24:28])()", [(None, "A:4096")]),
    "text method by name": ("return getattr(a[20:23].decode(), 'upper')()", [("RYE", "A:rye")]),
    "method under another name": ("up = a[20:23].decode().upper\nreturn up()", [("RYE", "A:rye")]),
    "partial under another name": (
        "from functools import partial\njoin = partial(b'/'.join, [a[20:23], b[9:13]])\nreturn join()",
        [("rye", "A:rye"), ("oats", "B:oats")],
    ),
    "partial in an attribute": (
        "import functools\nclass X: pass\nx = X()\nx.run = functools.partial(int, a[24:28])\nreturn x.run()",
        [(None, "A:4096")],
    ),
    "function in a table": ("return {'n': int}['n'](a[24:28])", [(None, "A:4096")]),
    "map of a method": ("return list(map(','.join, [[a[20:23].decode(), 'x']]))[0]", [("rye", "A:rye")]),
    "JSON from a stream of the program": (
        "import json\nclass X:\n    def read(self):\n        return b[:1] + b[1:]\nreturn json.load(X())['deep']['id']",
        [("x-1", "B:x-1")],
    ),
    "JSON to a stream of the program": (
        "import json\nclass X(list):\n    def write(self, part):\n        self.append(part)\nx = X()\n"
        "json.dump({'k': [1, a[20:23].decode()], 'n': int(a[24:28])}, fp=x, indent=1)\nreturn ''.join(x)",
        [("rye", "A:rye"), ("4096", "A:4096", "all")],
    ),
    "CSV to a stream": ("import csv, io\nx = io.StringIO()\ncsv.writer(x).writerow([a[20:23].decode()])\nreturn x.getvalue()",
                        [("rye", "A:rye")]),
    "pickle in a stream": (
        "import pickle, io\nx = io.BytesIO()\nx.write(b'..')\npickle.dump([b'x', a[20:23]], x)\nx.seek(2)\n"
        "return pickle.load(x)[1]",
        [("rye", "A:rye")],
    ),
    "sum of decimals": ("from decimal import Decimal\nreturn int(-Decimal(a[24:28].decode()) + 1)", [(None, "A:4096")]),
    "rounded decimal": (
        "from decimal import Decimal\nreturn str(Decimal(a[24:28].decode()).quantize(Decimal('1.0')))",
        [("4096.0", "A:4096")],
    ),
    "item of an array": ("import array\nx = array.array('H', a[4:10])\nreturn x[-2]", [(None, "A@6:8")]),
    "stored in an array": (
        "import array\nx = array.array('B', a[20:23])\nx[1] = 0\nx.append(a[18])\nreturn x.tobytes()",
        [(0, 1, "A@20:21"), (2, 3, "A@22:23"), (3, 4, "A:7")],
    ),
    "array of numbers": (
        "import array\nx = array.array('H', [1, int(a[24:28])])\ndel x[0]\nreturn x.tolist()[0]",
        [(None, "A:4096")],
    ),
    "part of an array": ("import array\nreturn bytes(array.array('B', a)[20:23])", [("rye", "A:rye")]),
    "template with a dictionary": (
        "import string\nreturn string.Template('$$ ${x} $y').safe_substitute({'x': a[20:23].decode()})",
        [("rye", "A:rye")],
    ),
    "reduce": ("import functools\nreturn functools.reduce(lambda x, y: x + y, [a[20:23], b'!'])", [("rye", "A:rye")]),
    "sorted by key": ("return sorted(a.split(), key=len)[0]", [("5", "A:5")]),
    "chain": ("import itertools\nreturn list(itertools.chain([a[20:23]], [b'x']))[0]", [("rye", "A:rye")]),
    "dictionary of pairs": ("return dict([a[20:28].split()])[b'rye']", [("4096", "A:4096")]),
    "comprehension": ("return {k: v for k, v in [a[20:28].split()]}[b'rye']", [("4096", "A:4096")]),
    "starred": ("x, *y = a.split()\nreturn y[1]", [("rye", "A:rye")]),
    "exception": ("try:\n    raise ValueError(a[20:23])\nexcept ValueError as e:\n    return e.args[0]", [("rye", "A:rye")]),
    "gzip": ("import gzip\nreturn gzip.decompress(gzip.compress(a[20:23]))", [("rye", "A:rye", "all")]),
    "unquoted": ("from urllib.parse import unquote\nreturn unquote(a[20:23].decode() + '%20')[:3]", [("rye", "A:rye", "all")]),
    # --- no flow
    "length": ("return len(a)", []),
    "constant": ("return 'rye'", []),
    "equal text": ("x = a[20:23].decode()\nreturn C if x == C else x", []),
    "equal small number": ("x = int(a[29:30])\nreturn 5", []),
    "equal number": ("x = [int(a[29:30])]\nreturn [5, 6][0]", []),
    "comparison": ("return 1 if a[29] == 53 else 2", []),
    "selected by": ("return {b'rye': 'grain'}[a[20:23]]", []),
    "the rest of a buffer": ("x = a[20:23] + b'plain'\nreturn x[3:]", []),
    "separator": ("a.partition(b'granary/')\nreturn b'granary/'", []),
    "key of an equal dictionary": ("import json\njson.loads(b)\nreturn json.loads('{\"key\": \"oats\"}')['key']", []),
    "other value of a document": ("import json\nreturn json.loads(json.dumps({'k': a[20:23].decode(), 'z': 'rye'}))['z']", []),
    "counter": ("n = 0\nfor x in a[:4]:\n    n += 1\nreturn n", []),
    "index": ("return a.index(b'rye')", []),
    "position": ("return a.find(b' ') + 1", []),
    "overwritten": ("x = bytearray(a[20:23])\nx[:] = b'abc'\nreturn bytes(x)", []),
    "emptied": ("x = bytearray(a[20:23])\nx.clear()\nx += b'abc'\nreturn bytes(x)", []),
    "another document in the stream": (
        "import json, io\nx = io.StringIO()\njson.dump(a[20:23].decode(), x)\njson.dump(['rye', float('nan')], x)\n"
        "return x.getvalue()[5:]",
        [],
    ),
    "equal part": ("x = {'k': a[20:23].decode()}\nreturn 'rye oats'.split()[0]", []),
}


def pairs_of(truth, result):
    """The truth as pairs: an element of the result, and a byte of a source."""
    found = set()
    for entry in truth:
        everything = entry[-1] == "all"
        *place, where = entry[: len(entry) - everything]
        begin, end = place if len(place) == 2 else _place(place[0], result)
        source, low, high = _range(where)
        same = end - begin == high - low and not everything
        found |= {
            (at, (source, byte)) for at in range(begin, end) for byte in range(low, high) if not same or at - begin == byte - low
        }
    return found


def _place(part, result):
    if part is None:
        return 0, 1
    if isinstance(result, bytes):
        part = part.encode("latin-1")
    return result.index(part), result.index(part) + len(part)


def _range(where):
    """`A:rye`: these bytes of the first message; `A@4:8`: those at the positions."""
    source, message = (1, A) if where[0] == "A" else (2, B)
    if where[1] == "@":
        low, _, high = where[2:].partition(":")
        return source, int(low), int(high)
    part = where[2:].encode()
    return source, message.index(part), message.index(part) + len(part)


def found_pairs(segments):
    return {
        (at, (source, byte))
        for begin, end, source, low, high, exact in segments
        for at in range(begin, end)
        for byte in range(low, high)
        if not exact or at - begin == byte - low
    }


def function_of(body, transform):
    source = "def flow(a, b):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    names = {"C": C}
    exec(transform(source.encode()), names)
    return names["flow"]


def fresh(message):
    return bytes(bytearray(message))


def main(agent_dir, accelerators=""):
    sys.path.insert(0, agent_dir)
    from undermine_agent.interpreter import fast

    if accelerators:
        fast.load(accelerators)
    import builtins
    from importlib import import_module

    from undermine_agent.labels import table
    from undermine_agent.labels.hooks import NAMES, Hooks
    from undermine_agent.labels.rewriting import HOOK, rewritten

    errors = []
    hooks = Hooks(lambda error: errors.append(repr(error)))

    def when_imported(name, hook):
        try:
            module = import_module(name)
        except ImportError:
            return
        hook(module)

    hooks.install(when_imported)
    setattr(builtins, HOOK, hooks.builtin())
    flows = {}
    for name, (body, truth) in FLOWS.items():
        try:
            plain = function_of(body, lambda source: source)(fresh(A), fresh(B))
        except ImportError:
            continue
        a, b = (table.put(fresh(text), [(0, len(text), at, 0, len(text), True)]) for at, text in ((1, A), (2, B)))
        result = function_of(body, lambda source: rewritten(source, "flow.py", NAMES)[0])(a, b)
        wanted, found = pairs_of(truth, result), found_pairs(table.of(result))
        flows[name] = {
            "same": result == plain and type(result) is type(plain),
            "wanted": len(wanted),
            "found": len(found),
            "right": len(wanted & found),
            "errors": errors[:],
        }
        errors.clear()
        table.clear()
    print(json.dumps({"agent": fast.name(), "why_slow": fast.why_not, "flows": flows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
