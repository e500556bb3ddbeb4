import json
from tests.store.test_hot_plans import *
from tests.store.test_hot_plans import many_rows
async def test_show(many_rows):
    c=many_rows.connection
    from rota.store.statements import sql
    await c.execute("prepare le as "+sql("list_ended"))
    for r in await c.fetch(f"explain (analyze, timing off, summary off) execute le({many_rows.tenant}, {2**62}, 11, null, null, 50)"):
        if 'never executed' not in r[0]: print(r[0][:150])
